"""Deploy an escrow on an EVM chain: a contract, with an owner and a daily cap for each token."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chains.addresses import RecipientError, read_evm_address
from chains.catalogue import ServedChain
from chains.evm.configuration_check import Roles
from chains.evm.deployment import MOST_RELAYERS, Deployer
from chains.evm.owner_calls import set_daily_cap
from foundation.commands import read_amount
from foundation.environment.configuration import Configuration
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units
from foundation.kernel.secrecy import Secret
from payments.management.deployments import Deployed, Task
from services.served_chains import configured_roles, evm_chain

_KEY = "DEPLOYER_KEY"
_ZERO = "0x" + "0" * 40


def deploy(task: Task, options: dict[str, Any]) -> Deployed:
    """Deploy a new escrow and cap its tokens, or say what its owner has to call.

    Raises:
        CommandError: an option or a variable is not what it should be; nothing was sent.
        OperationRefused, ChainUnavailable: as `Deployer` does.
    """
    if settings.RELAYERS_PER_CHAIN > MOST_RELAYERS:
        raise CommandError(
            f"An escrow is deployed with {MOST_RELAYERS} relayers at most: run this with "
            f"RELAYERS_PER_CHAIN={MOST_RELAYERS}; its owner enables the others (manage.py owner_calls)."
        )
    roles = configured_roles()
    owner = _read_owner(options["owner"], roles)
    caps = dict(read_cap(text, task.served) for text in options["daily_cap"])
    deployer = Deployer(evm_chain(task.served.chain.caip2), _read_key(), task.tell)
    deployer.check_chain()
    task.confirm(
        f"{deployer.address} deploys an escrow: owner {owner}, policy signer {roles.policy_signer}, "
        f"{len(roles.relayers)} relayers.",
        "",
    )
    escrow, receipt = deployer.deploy(owner, roles)
    deployer.verify(escrow, owner, roles)
    calls = [
        set_daily_cap(escrow, task.served.tokens[asset], to_base_units(amount, asset)) for asset, amount in caps.items()
    ]
    if owner == deployer.address:
        deployer.call(calls)
    return Deployed(
        escrow,
        receipt.tx,
        receipt.block_number,
        deployer.find_mismatches(escrow, roles),
        deployer.find_objections(escrow, roles),
        owner=owner,
        facts={"owner": owner, "policySigner": roles.policy_signer, "relayers": list(roles.relayers)},
        owner_calls=[] if owner == deployer.address else calls,
    )


def _read_owner(text: str | None, roles: Roles) -> str:
    if text is None:
        raise CommandError("--owner: An escrow on an EVM chain has an owner. Give its address.")
    try:
        owner = read_evm_address(text)
    except RecipientError as error:
        raise CommandError(f"--owner: {error}") from error
    if owner == _ZERO or owner in (roles.policy_signer, *roles.relayers):
        raise CommandError("--owner: Must be an account of its own, not zero, the policy signer or a relayer.")
    return owner


def read_cap(text: str, served: ServedChain) -> tuple[Asset, Decimal]:
    """Read a daily cap from `ASSET=AMOUNT`.

    Raises:
        CommandError: it is not one, of an asset of this chain.
    """
    asset, _, amount = text.partition("=")
    if asset not in served.tokens:
        raise CommandError(f"--daily-cap: Must be ASSET=AMOUNT, the asset one of {', '.join(served.tokens)}.")
    return Asset(asset), read_amount(amount, asset, "--daily-cap")


def read_authorization_limits(text: str, served: ServedChain) -> tuple[Asset, Decimal, Decimal]:
    """Read how much payees may take at once, and what must stay, from `ASSET=MOST,RESERVE`.

    Raises:
        CommandError: it is not that, of an asset of this chain.
    """
    asset, _, amounts = text.partition("=")
    most, comma, reserve = amounts.partition(",")
    if asset not in served.tokens or not comma:
        raise CommandError(f"--x402: Must be ASSET=MOST,RESERVE, the asset one of {', '.join(served.tokens)}.")
    return Asset(asset), _read_limit(most, asset), _read_limit(reserve, asset)


def _read_limit(text: str, asset: str) -> Decimal:
    return Decimal(0) if text.strip("0.") == "" and text else read_amount(text, asset, "--x402")


def _read_key() -> bytes:
    configuration = Configuration()
    key: Secret | None = configuration.read(_KEY, is_needed=True)
    if key is None:
        raise CommandError(" ".join(configuration.problems))
    return key
