"""Create an escrow on a Solana chain: two multisigs, one under either token program, and an account of each asset."""

from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError

from chains.addresses import RecipientError, parse_recipient
from chains.catalogue import Chain
from chains.solana.derivation import relayer_keypair
from chains.solana.inspection import inspect
from foundation.environment.keys import held_key
from owner.deployments import Deployed, Task
from owner.solana.deployment import Deployer
from services.served_chains import solana_chain

# A multisig has one relayer.
_RELAYER = 0


def deploy(task: Task, options: dict[str, Any]) -> Deployed:
    """Create what is missing of the escrow of our relayer, our policy signer and the owner, and print where to deposit.

    Raises:
        CommandError: an option is not what it should be; nothing was sent.
        OperationRefused, ChainUnavailable: as `Deployer` does.
    """
    if options["daily_cap"]:
        raise CommandError("--daily-cap: An escrow on Solana has no cap.")
    owner = _read_owner(task.served.chain, options["owner"])
    chain = solana_chain(task.served.chain.caip2)
    # The configured owner, if there is one, may be that of another escrow.
    signers = chain.signers.owned_by(owner)
    relayer = relayer_keypair(held_key("RELAYER_SEED"), _RELAYER)
    deployer = Deployer(task.served, chain.nodes, relayer, signers, task.tell)
    expected = replace(chain.inspector.expect(), escrow=deployer.escrow, signers=signers)
    task.confirm(
        f"The relayer {deployer.address} creates the escrow {deployer.escrow}, of itself, the policy signer "
        f"{signers.policy_signer} and the owner {owner}.",
        deployer.escrow,
    )
    deployment = deployer.deploy()
    found = inspect(chain.inspector.singles, expected)
    for name, text in found.describe():
        task.tell(f"{name}: {text}")
    return Deployed(
        deployment.escrow, deployment.tx, deployment.slot, found.find_mismatches(), found.find_objections(),
        owner=owner, facts=found.as_json(),
    )  # fmt: skip


def _read_owner(chain: Chain, text: str | None) -> str:
    if text is None:
        raise CommandError("--owner: An escrow on Solana has an owner, who can rescue what it holds. Give its address.")
    try:
        # An address that cannot be paid cannot sign either: a program, a mint, the zero address.
        return parse_recipient(f"{chain.caip2}:{text}").address
    except RecipientError as error:
        raise CommandError(f"--owner: {error}") from error
