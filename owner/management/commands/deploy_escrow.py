"""`manage.py deploy_escrow CHAIN --owner ADDRESS [--daily-cap USDC=1000 ...] [--yes]`."""

from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from chains.catalogue import Chain, ServedChain, Vm, find_chain
from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand
from foundation.environment.missing_escrows import leave_out_missing_escrows
from owner import evm_escrow, solana_escrow
from owner.calls import show_owner_calls
from owner.consent import require_consent
from owner.deployments import Deployed, Task
from staff.audit import record

_DEPLOY = {Vm.EVM: evm_escrow.deploy, Vm.SOLANA: solana_escrow.deploy}
_NO_ESCROWS = ("0x" + "0" * 40, "1" * 32)


class Command(JsonCommand):
    help = (
        "Deploy an escrow on a chain that has CHAIN_<ALIAS>_RPC_URLS, with our policy signer and relayers, and print "
        "the variables to set. On an EVM chain the environment's DEPLOYER_KEY (32 bytes in hex) pays for it; it is "
        "not needed afterwards. There the escrow is a contract with an owner, who can pause it, exchange its roles "
        "and take the money out: let it be an account that nothing here has the key of, such as a multisig. On Solana "
        "the escrow is a multisig of the first relayer, the policy signer (POLICY_SIGNER_SOLANA_KEY) and the owner, of "
        "whom two must sign, without caps, and with a token account of each asset; the relayer itself pays, so it "
        "needs SOL first. The owner signs nothing here: let its key be a cold one. Run it again there, with the same "
        "owner, to finish what was interrupted, or to add the account of an asset that was added: what is there stays "
        "as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", help="An alias such as base, or CAIP-2.")
        parser.add_argument(
            "--owner",
            metavar="ADDRESS",
            help="Who owns the escrow, and can take the money out. Required. On Solana only together with the relayer "
            "or the policy signer, and none of the three can be exchanged.",
        )
        parser.add_argument(
            "--daily-cap",
            action="append",
            default=[],
            metavar="ASSET=AMOUNT",
            help="On EVM chains: how much of an asset may be paid per UTC day (0 until it is set). Set here if the "
            "deployer is the owner; otherwise printed as what the owner has to call, also for a Safe. May be repeated.",
        )
        parser.add_argument("--yes", action="store_true", help="Do not ask, not even on a chain with real money.")

    def perform(self, **options: Any) -> dict[str, Any]:
        _check_configuration()
        served = _find_served(options["chain"])
        confirm = partial(self._confirm, served, is_asked=not options["yes"])
        try:
            deployed = _DEPLOY[served.chain.vm](Task(served, self.stderr.write, confirm), options)
        except ChainUnavailable as error:
            raise CommandError(str(error)) from error
        self._tell(served.chain, deployed)
        self._record(served.chain, deployed)
        to_sign = self._show_owner_calls(served.chain, deployed) if deployed.owner_calls else None
        return {
            "chain": served.chain.caip2,
            "escrow": deployed.escrow,
            "block": deployed.first_block,
            "tx": deployed.tx,
            **deployed.facts,
            "mismatches": deployed.mismatches,
            "objections": deployed.objections,
            "toSign": to_sign,
        }

    def _record(self, chain: Chain, deployed: Deployed) -> None:
        after = {"escrow": deployed.escrow, "tx": deployed.tx, **deployed.facts}
        try:
            record("escrow.deployed", subject_type="escrow", subject=chain.caip2, by=AUTHOR, after=after)
        except DatabaseError:
            # An escrow may be the first thing that an installation makes, before its database has tables.
            self.stderr.write("The audit does not have this: the database could not be written.")

    def _tell(self, chain: Chain, deployed: Deployed) -> None:
        for mismatch in deployed.mismatches:
            self.stderr.write(f"Before anything is paid: {mismatch}")
        for objection in deployed.objections:
            self.stderr.write(f"The other assets go on without this one: {objection}")
        self.stdout.write(f"{chain.variables}_ESCROW={deployed.escrow}")
        if deployed.owner is not None:
            self.stdout.write(f"{chain.variables}_OWNER={deployed.owner}")
        if deployed.first_block is None:
            self.stderr.write(f"No node knows its first block: {chain.variables}_FIRST_BLOCK stays what it was.")
        else:
            self.stdout.write(f"{chain.variables}_FIRST_BLOCK={deployed.first_block}")

    def _show_owner_calls(self, chain: Chain, deployed: Deployed) -> dict[str, Any]:
        return show_owner_calls(
            deployed.owner_calls,
            owner=deployed.facts["owner"],
            chain=chain,
            made_by="deploy_escrow",
            tell=self.stderr.write,
            show=self.stdout.write,
        )

    def _confirm(self, served: ServedChain, what: str, escrow: str, *, is_asked: bool) -> None:
        chain = served.chain
        self.stderr.write(f"{chain.alias} ({chain.caip2}): {what}")
        if served.escrow not in (*_NO_ESCROWS, escrow):
            self.stderr.write(f"{chain.alias} has the escrow {served.escrow}; what that one holds stays there.")
        require_consent(chain, is_asked=is_asked, otherwise="Nothing was deployed.")


def _check_configuration() -> None:
    problems = leave_out_missing_escrows(settings.CONFIGURATION_PROBLEMS)
    if problems:
        raise CommandError(" ".join(problems))


def _find_served(name: str) -> ServedChain:
    chain = find_chain(name)
    if chain is None:
        raise CommandError(f"There is no chain {name}.")
    if chain.caip2 not in settings.CHAINS:
        raise CommandError(f"{chain.variables}_RPC_URLS is not set.")
    served: ServedChain = settings.CHAINS[chain.caip2]
    return served
