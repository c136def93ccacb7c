"""Rotate the keys of an escrow on a Solana chain. The keys are part of its address, so there is a new escrow.

What the old escrow holds is transferred there (`former_solana_escrow`). Payments in flight on the old escrow come to
their end while it is still the configured one, because only its own history tells how they ended.
"""

from collections.abc import Sequence

from chains.solana.adapter import SolanaChain
from chains.solana.derivation import TOKEN_PROGRAM
from foundation.environment.keys import held_key
from foundation.kernel.errors import OperationRefused
from owner import deployments, solana_escrow
from owner.escrow_transfers import (
    find_transfers,
)
from owner.former_solana_escrow import FormerEscrow
from owner.keys import read_optional_key
from owner.rotations import (
    OLD_SEED,
    OLD_SOLANA_KEY,
    Rotated,
    Task,
)
from owner.solana.moving import Keys
from payments.models import Withdrawal
from services.served_chains import solana_chain


def rotate(task: Task) -> Rotated:
    """Make the escrow of the configured keys, and transfer there what the escrows of earlier keys hold.

    Raises:
        ValueError: a variable is not what it should be.
        OperationRefused: there are not enough keys, the new relayer has no SOL, or a withdrawal is open.
        ChainUnavailable: no node answers.
        NotDoneYet: something has to be waited for.
    """
    chain = solana_chain(task.caip2)
    if chain.signers.objection:
        raise OperationRefused(chain.signers.objection)
    keys = _read_keys()
    new, used = str(chain.signers.escrow(TOKEN_PROGRAM)), task.served.escrow
    known = dict.fromkeys([*find_transfers(task.caip2).values_list("escrow", flat=True), task.old_escrow or used])
    others = [FormerEscrow(task, chain, escrow, keys) for escrow in known if escrow not in (new, used)]
    if used == new:
        _empty(others)
        return Rotated(is_to_be_set=False, facts={"escrow": new, "left": [one.escrow for one in others]})
    deployed = _replace(task, chain, FormerEscrow(task, chain, used, keys))
    _empty(others)
    variables = {"ESCROW": new, "OWNER": str(chain.signers.owner), "FIRST_BLOCK": str(deployed.first_block or "")}
    prefix = task.served.chain.variables
    return Rotated(
        variables={f"{prefix}_{name}": value for name, value in variables.items() if value},
        facts={"escrow": new, "left": [used, *(one.escrow for one in others)], "block": deployed.first_block},
    )


def _replace(task: Task, chain: SolanaChain, former: FormerEscrow) -> deployments.Deployed:
    """Make the new escrow, and transfer everything there out of the one that is in use."""
    former.check_keys()
    _check_withdrawals(task)
    if task.is_now:
        task.stop()
    deployed = _deploy(task, chain)
    if deployed.first_block is None:
        task.tell("No node knows since when the escrow is there: its first block stays what an earlier run printed.")
    if not task.is_now:
        task.stop()
        former.wait_for_payments()
    former.empty()
    # Before the operator goes on: once the new escrow is in use, nothing says how payments of the old one ended.
    former.wait_for_payments()
    return deployed


def _empty(others: Sequence[FormerEscrow]) -> None:
    for one in others:
        if one.find_held():
            one.empty()


def _deploy(task: Task, chain: SolanaChain) -> deployments.Deployed:
    deployment = deployments.Task(task.served, task.tell, lambda what, _escrow: task.confirm(what))
    deployed = solana_escrow.deploy(deployment, {"owner": str(chain.signers.owner), "daily_cap": []})
    if deployed.mismatches:
        # It is compared with what is configured, too, which is the old one until all is done.
        raise OperationRefused(" ".join(deployed.mismatches))
    return deployed


def _check_withdrawals(task: Task) -> None:
    """Refuse, or with --now report, the withdrawals that cannot be paid any more once the tokens have moved."""
    waiting = Withdrawal.objects.filter(chain=task.caip2, agent__isnull=False, landed_block=None, cancelled_at=None)
    if names := ", ".join(waiting.order_by("pk").values_list("reference", flat=True)):
        text = f"Open withdrawals could not be paid by the old escrow any more: {names}."
        if not task.is_now:
            raise OperationRefused(f"{text} Wait until they have landed, or cancel them, first.")
        task.tell(f"{text} Cancel them, and book them again.")


def _read_keys() -> Keys:
    old_seed, old_key = read_optional_key(OLD_SEED), read_optional_key(OLD_SOLANA_KEY)
    return Keys(
        [held_key("RELAYER_SEED"), *([old_seed] if old_seed else [])],
        [held_key("POLICY_SIGNER_SOLANA_KEY"), *([old_key] if old_key else [])],
    )
