"""What an escrow's owner signs so that the tokens of a withdrawal move: something else on each kind of chain."""

from typing import Any

from django.conf import settings
from django.db import transaction

from allowance.environment.keys import held_key
from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import to_base_units
from chains.catalogue import ServedChain, Vm
from chains.evm.withdrawing import safe_batch, withdrawal_call
from chains.port import ChainUnavailable, Finality
from chains.solana.adapter import SolanaChain
from chains.solana.handing_over import hand_over
from payments.funding.withdrawals import cancel_withdrawal, find_withdrawal
from payments.models import Withdrawal
from payments.served_chains import solana_chain
from payments.settling.expiry import HEIGHT_MARGIN, find_search_cursor


class StillGood(OperationRefused):
    """What the owner was given to sign before may still land: another one now could pay twice."""


def transfer_to_sign(withdrawal: Withdrawal) -> dict[str, Any]:
    """Make what the owner signs, by name.

    On an EVM chain `call`, the escrow's, and `safe`, a Safe's batch file of it: nothing in them is secret or expires.
    On Solana `transaction`, in base64, signed by the relayer: it expires within a minute or two, and another one is
    made only once it is certain that this one did not land.

    Raises:
        OperationRefused: the chain or its asset is not served any more, or the withdrawal has ended.
        StillGood: on Solana.
        ChainUnavailable: on Solana, no node answered, or they contradict each other.
    """
    served = _check_open(withdrawal)
    return _on_evm(withdrawal, served) if served.chain.vm is Vm.EVM else _on_solana(withdrawal)


def take_back(reference: str, *, by: str, reason: str) -> Withdrawal:
    """Book a withdrawal back, once nothing that was made for the owner to sign, and that expires, may still land.

    What is signed on an EVM chain never expires: there only whoever has the owner's key can tell.

    Raises:
        OperationRefused: as `cancel_withdrawal` does, something may still land, or that cannot be told now.
    """
    try:
        _check_is_over(find_withdrawal(reference))
    except ChainUnavailable as error:
        raise OperationRefused(f"It cannot be told whether {reference} may still land: {error}") from error
    return cancel_withdrawal(reference, by=by, reason=reason)


def _check_is_over(withdrawal: Withdrawal) -> None:
    served: ServedChain | None = settings.CHAINS.get(withdrawal.chain)
    if withdrawal.state != "open" or served is None or withdrawal.escrow != served.escrow:
        return
    if served.chain.vm is Vm.SOLANA:
        adapter = solana_chain(withdrawal.chain)
        if _may_land(withdrawal, adapter, adapter.find_finality()):
            raise StillGood(f"What the owner was given to sign for {withdrawal} may still land: try again in a minute.")


def expires(withdrawal: Withdrawal) -> bool:
    """Tell whether what the owner signs expires, so that it is made only when the owner is about to sign it."""
    return _check_open(withdrawal).chain.vm is Vm.SOLANA


def _check_open(withdrawal: Withdrawal) -> ServedChain:
    served: ServedChain | None = settings.CHAINS.get(withdrawal.chain)
    if served is None or withdrawal.asset not in served.tokens:
        raise OperationRefused(f"{withdrawal.asset} is not served on {withdrawal.chain} any more.")
    if withdrawal.state != "open":
        raise OperationRefused(f"{withdrawal} is {withdrawal.state}: there is nothing to sign.")
    if withdrawal.agent_id is None:
        # Its recipient is an account of the next escrow, not somebody who has one.
        raise OperationRefused(f"{withdrawal} moves to the next escrow, which rotate_keys does.")
    if withdrawal.escrow != served.escrow:
        raise OperationRefused(f"{withdrawal} is of another escrow than the one in use: cancel it.")
    return served


def _on_evm(withdrawal: Withdrawal, served: ServedChain) -> dict[str, Any]:
    asset = Asset(withdrawal.asset)
    call = withdrawal_call(
        withdrawal.escrow,
        served.chain.chain_id,
        token=served.tokens[asset],
        recipient=withdrawal.recipient,
        units=to_base_units(withdrawal.amount, asset),
    )
    made_at = int(withdrawal.created_at.timestamp() * 1000)
    return {"call": call, "safe": safe_batch(call, name=withdrawal.reference, created_at_ms=made_at)}


def _on_solana(withdrawal: Withdrawal) -> dict[str, Any]:
    adapter, asset = solana_chain(withdrawal.chain), Asset(withdrawal.asset)
    finality = adapter.find_finality()
    if _may_land(withdrawal, adapter, finality):
        raise StillGood(f"What was made for {withdrawal} before may still land: wait until it has expired.")
    made = hand_over(
        adapter,
        finality,
        held_key("RELAYER_SEED"),
        asset=asset,
        units=to_base_units(withdrawal.amount, asset),
        recipient=withdrawal.recipient,
        memo=withdrawal.reference,
    )
    with transaction.atomic():
        # Written down before anybody has it; what was shown elsewhere meanwhile has another height.
        row = Withdrawal.objects.select_for_update(no_key=True).get(pk=withdrawal.pk)
        _check_open(row)
        if row.valid_until_height != withdrawal.valid_until_height:
            raise StillGood(f"Somebody else is about to sign {withdrawal}.")
        row.valid_until_height = withdrawal.valid_until_height = made.valid_until_height
        row.save(update_fields=["valid_until_height"])
    return {"transaction": made.transaction, "validUntilHeight": made.valid_until_height}


def _may_land(withdrawal: Withdrawal, adapter: SolanaChain, finality: Finality) -> bool:
    """Tell whether what was made before is good for longer, or in a block that was not searched yet."""
    if withdrawal.valid_until_height is None:
        return False
    search = find_search_cursor(withdrawal.chain, adapter)
    last_block = withdrawal.valid_until_height + HEIGHT_MARGIN + finality.skipped
    return search is None or search.block_number is None or search.block_number < last_block
