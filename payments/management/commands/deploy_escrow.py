"""`manage.py deploy_escrow CHAIN --owner ADDRESS [--daily-cap USDC=1000 ...] [--yes]`."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from allowance.commands import JsonCommand, read_amount
from allowance.configuration import SECP256K1_ORDER, Configuration, leave_out_missing_escrows
from allowance.kernel.assets import Asset
from allowance.kernel.money import to_base_units
from payments.chains.base import ChainUnavailable
from payments.chains.evm.deployment import MOST_RELAYERS, Deployer
from payments.chains.evm.findings import Roles
from payments.chains.registry import configured_roles, evm_chain
from services.addresses import RecipientError, read_evm_address
from services.chains import ServedChain, Vm, find_chain

_KEY = "DEPLOYER_KEY"
_ZERO = "0x" + "0" * 40


class Command(JsonCommand):
    help = (
        "Deploy an escrow on a chain that has CHAIN_<ALIAS>_RPC_URLS, with our policy signer and relayers, and print "
        "the variables to set. The environment's DEPLOYER_KEY (32 bytes in hex) pays for it; it is not needed "
        "afterwards. The owner can pause the escrow, exchange its roles and take the money out: let it be an account "
        "that nothing here has the key of, such as a multisig."
    )
    # The chain has no escrow yet; everything else is checked below.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", help="An alias such as base, or CAIP-2.")
        parser.add_argument("--owner", required=True, metavar="ADDRESS", help="Who owns the escrow.")
        parser.add_argument(
            "--daily-cap",
            action="append",
            default=[],
            metavar="ASSET=AMOUNT",
            help="How much of an asset may be paid per UTC day (0 until it is set). Set here if the deployer is the "
            "owner; otherwise printed as what the owner has to call. May be repeated.",
        )
        parser.add_argument("--yes", action="store_true", help="Do not ask, not even on a chain with real money.")

    def perform(self, **options: Any) -> dict[str, Any]:
        _check_configuration()
        served = _find_served(options["chain"])
        roles = configured_roles()
        owner = _read_owner(options["owner"], roles)
        caps = dict(_read_cap(text, served) for text in options["daily_cap"])
        try:
            deployer = Deployer(evm_chain(served.chain.caip2), _read_key(), self.stderr.write)
            deployer.check_chain()
            self._confirm(served, deployer.address, owner, roles, is_asked=not options["yes"])
            escrow, receipt = deployer.deploy(owner, roles)
            deployer.verify(escrow, owner, roles)
            self._cap(deployer, served, owner, escrow, caps)
            remaining = deployer.find_mismatches(escrow, roles)
        except ChainUnavailable as error:
            raise CommandError(str(error)) from error
        for mismatch in remaining:
            self.stderr.write(f"Before anything is paid: {mismatch}")
        self.stdout.write(f"{served.chain.variables}_ESCROW={escrow}")
        self.stdout.write(f"{served.chain.variables}_FIRST_BLOCK={receipt.block_number}")
        return {
            "chain": served.chain.caip2,
            "escrow": escrow,
            "block": receipt.block_number,
            "tx": receipt.tx,
            "owner": owner,
            "policySigner": roles.policy_signer,
            "relayers": list(roles.relayers),
            "mismatches": remaining,
        }

    def _confirm(self, served: ServedChain, deployer: str, owner: str, roles: Roles, *, is_asked: bool) -> None:
        chain = served.chain
        self.stderr.write(
            f"{deployer} deploys an escrow on {chain.alias} ({chain.caip2}): owner {owner}, "
            f"policy signer {roles.policy_signer}, {len(roles.relayers)} relayers."
        )
        if served.escrow != _ZERO:
            self.stderr.write(f"{chain.alias} has the escrow {served.escrow}; what that one holds stays there.")
        if chain.is_test or not is_asked:
            return
        try:
            answer = input(f"{chain.alias} has real money. Type its name to go on: ")
        except EOFError:
            raise CommandError("Nobody answers: --yes goes on without asking.") from None
        if answer.strip() != chain.alias:
            raise CommandError("Nothing was deployed.")

    def _cap(
        self, deployer: Deployer, served: ServedChain, owner: str, escrow: str, caps: dict[Asset, Decimal]
    ) -> None:
        for asset, amount in caps.items():
            token, units = served.tokens[asset], to_base_units(amount, asset)
            if owner == deployer.address:
                self.stderr.write(f"Capping {asset} at {amount:f} a day.")
                deployer.set_daily_cap(escrow, token, units)
            else:
                self.stderr.write(f"The owner has to call {escrow}: setDailyCap({token}, {units})")


def _check_configuration() -> None:
    problems = leave_out_missing_escrows(settings.CONFIGURATION_PROBLEMS)
    if problems:
        raise CommandError(" ".join(problems))
    if settings.RELAYERS_PER_CHAIN > MOST_RELAYERS:
        raise CommandError(
            f"An escrow is deployed with {MOST_RELAYERS} relayers at most: run this with "
            f"RELAYERS_PER_CHAIN={MOST_RELAYERS}; its owner enables the others (setRelayer)."
        )


def _find_served(name: str) -> ServedChain:
    chain = find_chain(name)
    if chain is None or chain.vm is not Vm.EVM:
        raise CommandError(f"{name} is not an EVM chain that is known here.")
    if chain.caip2 not in settings.CHAINS:
        raise CommandError(f"{chain.variables}_RPC_URLS is not set.")
    served: ServedChain = settings.CHAINS[chain.caip2]
    return served


def _read_owner(text: str, roles: Roles) -> str:
    try:
        owner = read_evm_address(text)
    except RecipientError as error:
        raise CommandError(f"--owner: {error}") from error
    if owner == _ZERO or owner in (roles.policy_signer, *roles.relayers):
        raise CommandError("--owner: Must be an account of its own, not zero, the policy signer or a relayer.")
    return owner


def _read_cap(text: str, served: ServedChain) -> tuple[Asset, Decimal]:
    asset, _, amount = text.partition("=")
    if asset not in served.tokens:
        raise CommandError(f"--daily-cap: Must be ASSET=AMOUNT, the asset one of {', '.join(served.tokens)}.")
    return Asset(asset), read_amount(amount, asset, "--daily-cap")


def _read_key() -> bytes:
    configuration = Configuration()
    key = configuration.key(_KEY, 32, below=SECP256K1_ORDER)
    if configuration.problems:
        raise CommandError(" ".join(configuration.problems))
    return key
