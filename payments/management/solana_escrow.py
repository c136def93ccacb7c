"""Create an escrow on a Solana chain: two multisigs, one under either token program, and an account of each asset."""

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from payments.chains.registry import solana_chain
from payments.chains.solana.accounts import relayer_keypair
from payments.chains.solana.deployment import Deployer
from payments.chains.solana.inspection import inspect
from payments.management.deployments import Deployed, Task

# A multisig of two has one.
_RELAYER = 0
_EVM_ONLY = "An escrow on Solana has no owner and no cap: nobody but its two signers can ever move anything."


def deploy(task: Task, options: dict[str, Any]) -> Deployed:
    """Create what is missing of the escrow of our relayer and policy signer, and say where to deposit.

    Raises:
        CommandError: an option that there is for the EVM only; nothing was sent.
        OperationRefused, ChainUnavailable: as `Deployer` does.
    """
    for option in ("owner", "daily_cap"):
        if options[option]:
            raise CommandError(f"--{option.replace('_', '-')}: {_EVM_ONLY}")
    chain = solana_chain(task.served.chain.caip2)
    relayer = relayer_keypair(settings.RELAYER_SEED, _RELAYER)
    deployer = Deployer(task.served, chain.nodes, relayer, chain.signers[1], task.tell)
    expected = replace(chain.expect(), escrow=deployer.escrow)
    task.confirm(
        f"The relayer {deployer.address} creates the escrow {deployer.escrow}, of itself and the policy signer "
        f"{expected.policy_signer}.",
        deployer.escrow,
    )
    deployment = deployer.deploy()
    found = inspect(chain.single_nodes, expected)
    for name, text in found.lines():
        task.tell(f"{name}: {text}")
    return Deployed(deployment.escrow, deployment.tx, deployment.slot, found.find_mismatches(), found.present())
