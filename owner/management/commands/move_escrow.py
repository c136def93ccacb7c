"""`manage.py move_escrow CHAIN --to ADDRESS [--no-wait] [--yes]`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.addresses import RecipientError, read_evm_address
from chains.catalogue import ServedChain, Vm
from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand
from owner.consent import require_consent
from owner.evm_moving import move
from owner.rotations import NotDoneYet, Task
from services.served_chains import read_chain
from staff.audit import record


class Command(JsonCommand):
    help = (
        "Move an EVM chain from its configured escrow to another one, such as one of a newer release, which "
        "deploy_escrow has made with the same owner. It stops signing on the chain, waits until nothing is in flight, "
        "has the owner pause the old escrow, waits until its history is searched up to there, and has the owner take "
        "everything out into the new one: by itself, if DEPLOYER_KEY is the owner's; otherwise it prints the calls, "
        "and the same for a Safe. The processes go on meanwhile. It may be interrupted and run again at any time. "
        "See docs/operate/chains.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", metavar="CHAIN", help="An alias such as base, or CAIP-2.")
        parser.add_argument("--to", required=True, metavar="ADDRESS", help="The escrow that deploy_escrow has printed.")
        parser.add_argument("--no-wait", action="store_true", help="Do what can be done now, and end.")
        parser.add_argument("--yes", action="store_true", help="Do not ask, not even on a chain with real money.")

    def perform(self, **options: Any) -> dict[str, Any]:
        served: ServedChain = settings.CHAINS[read_chain(options["chain"])]
        if served.chain.vm is not Vm.EVM:
            raise CommandError("The escrow of a Solana chain is exchanged by rotate_keys: its keys are its address.")
        try:
            new = read_evm_address(options["to"])
        except RecipientError as error:
            raise CommandError(f"--to: {error}") from error
        task = self._task(served, options)
        found = {"chain": task.caip2, "from": served.escrow, "to": new}
        _record("escrow.move_begun", task, found)
        try:
            variables = move(task, new)
        except NotDoneYet as error:
            self.stderr.write(f"Not done yet: {error} Run this again.")
            return found | {"done": False, "waitingFor": str(error)}
        except (ChainUnavailable, ValueError) as error:
            raise CommandError(f"{error} What was done so far stays; run this again.") from error
        _record("escrow.moved", task, found)
        self._tell(served, variables)
        return found | {"done": True}

    def _tell(self, served: ServedChain, variables: dict[str, str]) -> None:
        for name, value in variables.items():
            self.stdout.write(f"{name}={value}")
        alias = served.chain.alias
        self.stderr.write(
            f"Then stop all processes, set these and the {served.chain.variables}_FIRST_BLOCK that deploy_escrow has "
            f"printed for them, start them, and run: manage.py chains, which must say that {alias} matches, and "
            f"manage.py start_chain {alias}. Tell customers where to deposit from now on."
        )

    def _task(self, served: ServedChain, options: dict[str, Any]) -> Task:
        def confirm(what: str) -> None:
            self.stderr.write(f"{served.chain.alias} ({served.chain.caip2}): {what}")
            require_consent(served.chain, is_asked=not options["yes"], otherwise="Nothing was done.")

        return Task(
            served,
            is_now=False,
            is_waiting=not options["no_wait"],
            old_escrow=None,
            tell=self.stderr.write,
            show=self.stdout.write,
            confirm=confirm,
        )


def _record(action: str, task: Task, after: dict[str, Any]) -> None:
    record(action, subject_type="escrow", subject=task.caip2, by=AUTHOR, after=after)
