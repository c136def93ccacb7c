"""What an escrow's owner signs so that the tokens of a withdrawal move: something else on each kind of chain."""

from typing import Any

from django.conf import settings

from allowance.kernel.assets import Asset
from allowance.kernel.errors import OperationRefused
from allowance.kernel.money import to_base_units
from payments.chains.evm.withdrawing import safe_batch, withdrawal_call
from payments.models import Withdrawal
from services.chains import ServedChain, Vm


def transfer_to_sign(withdrawal: Withdrawal) -> dict[str, Any]:
    """Make what the owner signs, by name: on an EVM chain `call`, the escrow's, and `safe`, a Safe's batch file of it.

    Nothing in it is secret.

    Raises:
        OperationRefused: the chain or its asset is not served any more, or the withdrawal has ended.
    """
    served: ServedChain | None = settings.CHAINS.get(withdrawal.chain)
    if served is None or withdrawal.asset not in served.tokens:
        raise OperationRefused(f"{withdrawal.asset} is not served on {withdrawal.chain} any more.")
    if withdrawal.state != "open":
        raise OperationRefused(f"{withdrawal} is {withdrawal.state}: there is nothing to sign.")
    return _MAKERS[served.chain.vm](withdrawal, served)


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


def _on_solana(withdrawal: Withdrawal, served: ServedChain) -> dict[str, Any]:
    raise OperationRefused(f"{withdrawal} is booked; a transaction for it cannot be made on {served.chain.alias} yet.")


_MAKERS = {Vm.EVM: _on_evm, Vm.SOLANA: _on_solana}
