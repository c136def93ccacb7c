"""`manage.py rotate_keys CHAIN [--now] [--no-wait] [--yes]`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.catalogue import ServedChain, Vm
from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand
from owner import evm_rotation, solana_rotation
from owner.consent import require_consent
from owner.rotations import NotDoneYet, Rotated, Task
from services.served_chains import read_chain
from staff.audit import record

_ROTATE = {Vm.EVM: evm_rotation.rotate, Vm.SOLANA: solana_rotation.rotate}
_KEYS = {
    Vm.EVM: ("RELAYER_SEED", "POLICY_SIGNER_SECP256K1_KEY"),
    Vm.SOLANA: ("RELAYER_SEED", "POLICY_SIGNER_SOLANA_KEY"),
}


class Command(JsonCommand):
    help = (
        "Move the escrow of a chain to another policy signer, or to other relayers. Run it with the new keys in the "
        "environment (RELAYER_SEED, POLICY_SIGNER_SECP256K1_KEY, POLICY_SIGNER_SOLANA_KEY) while the other processes "
        "still have the old ones. It compares the chain with the configuration, does what it can, prints what others "
        "have to sign, and waits for that. It may be interrupted and run again at any time. On an EVM chain the "
        "escrow's owner exchanges the roles: the command itself, if the environment's DEPLOYER_KEY is the owner's; "
        "otherwise it prints the calls, and the same for a Safe. On Solana it makes a new escrow and transfers "
        "everything: OLD_RELAYER_SEED and OLD_POLICY_SIGNER_SOLANA_KEY sign for that, or one of them and the owner. "
        "Run it again there later to transfer what customers still sent to the old address. See docs/operate/keys.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", metavar="CHAIN", help="An alias such as base, or CAIP-2.")
        parser.add_argument(
            "--now",
            action="store_true",
            help="After a theft or a loss: do not wait first for payments in flight. Those that the chain then "
            "refuses are given back.",
        )
        parser.add_argument("--no-wait", action="store_true", help="Do what can be done now, and end.")
        parser.add_argument("--yes", action="store_true", help="Do not ask, not even on a chain with real money.")
        parser.add_argument(
            "--old-escrow",
            metavar="ADDRESS",
            help="Solana: empty this escrow of earlier keys, too. Only needed if it held nothing when it was left.",
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        if settings.CONFIGURATION_PROBLEMS:
            raise CommandError(" ".join(settings.CONFIGURATION_PROBLEMS))
        served: ServedChain = settings.CHAINS[read_chain(options["chain"])]
        task = self._task(served, options)
        found = {"chain": task.caip2}
        _record("escrow.rotation_begun", task, {"isNow": task.is_now})
        try:
            rotated = _ROTATE[served.chain.vm](task)
        except NotDoneYet as error:
            self.stderr.write(f"Not done yet: {error} Run this again.")
            return found | {"done": False, "waitingFor": str(error)}
        except (ChainUnavailable, ValueError) as error:
            raise CommandError(f"{error} What was done so far stays; run this again.") from error
        _record("escrow.rotated", task, rotated.facts)
        if rotated.is_to_be_set:
            self._tell(served, rotated)
        return found | {"done": True, **rotated.facts}

    def _task(self, served: ServedChain, options: dict[str, Any]) -> Task:
        return Task(
            served,
            is_now=options["now"],
            is_waiting=not options["no_wait"],
            old_escrow=options["old_escrow"],
            tell=self.stderr.write,
            show=self.stdout.write,
            confirm=lambda what: self._confirm(served, what, is_asked=not options["yes"]),
        )

    def _tell(self, served: ServedChain, rotated: Rotated) -> None:
        alias, names = served.chain.alias, [*_KEYS[served.chain.vm], *rotated.variables]
        for name, value in rotated.variables.items():
            self.stdout.write(f"{name}={value}")
        others = [one.chain.alias for one in settings.CHAINS.values() if one is not served]
        if others:
            self.stderr.write(f"Chains share keys: run this for {', '.join(others)}, too, before you go on.")
        self.stderr.write(
            f"Then stop all processes, set {', '.join(names)} for them as they are here, start them, and run: "
            f"manage.py chains, which must say that {alias} matches, and manage.py start_chain {alias}"
        )

    def _confirm(self, served: ServedChain, what: str, *, is_asked: bool) -> None:
        chain = served.chain
        self.stderr.write(f"{chain.alias} ({chain.caip2}): {what}")
        require_consent(chain, is_asked=is_asked, otherwise="Nothing was done.")


def _record(action: str, task: Task, after: dict[str, Any]) -> None:
    record(action, subject_type="escrow", subject=task.caip2, by=AUTHOR, after=after)
