"""The costs of transactions: the fee, which is signed and always paid, and the rent of an account, if one is made."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from solders.transaction import VersionedTransaction
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID

from chains.port import GasCost, TransactionQuery
from chains.rpc.agreement import find_agreed
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call, RpcError
from chains.solana.answers import FINALIZED, read_tx, read_units
from chains.solana.derivation import SIGNATURES
from chains.solana.instructions import UNIT_LIMIT
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

_SIGNATURE_LAMPORTS = 5_000
_MICRO = 10**6


def find_fee(unit_price_micro_lamports: int) -> int:
    """Compute the fee of a payment, in lamports: for its signatures, and for all compute units that it may use."""
    return SIGNATURES * _SIGNATURE_LAMPORTS - -UNIT_LIMIT * unit_price_micro_lamports // _MICRO


def find_rent(lamports: int) -> int:
    """Compute the highest rent of a new account; `lamports` is the rent of a plain one. Those of Token-2022 are longer.

    A plain account counts as 293 bytes, an account for a mint with the extensions of PYUSD as 315.
    """
    return lamports * 5 // 4


def to_coins(lamports: int) -> Decimal:
    """Convert an amount to SOL."""
    return from_base_units(lamports, Asset.SOL)


def find_costs(nodes: Nodes, queries: Sequence[TransactionQuery]) -> dict[str, GasCost]:
    """Find the costs of finished transactions; see `Prover.find_costs`."""
    # A transaction that makes no account costs the fee that was signed: no node has to be asked.
    costs = {
        one.tx: GasCost(one.most_cost) for one in queries if not _makes_account(one.raw) and one.most_cost is not None
    }
    unknown = [one for one in queries if one.tx not in costs]
    if not unknown:
        return costs
    replies = nodes.ask_each([_call(one) for one in unknown])
    for index, one in enumerate(unknown):
        costs_lamports = [_read(reply.said[index], _read_cost(one.tx)) for reply in replies]
        cost = find_agreed([lamports for lamports in costs_lamports if lamports is not None], nodes.quorum)
        if cost is not None:
            costs[one.tx] = GasCost(to_coins(cost))
    return costs


def _makes_account(raw: bytes) -> bool:
    return ASSOCIATED_TOKEN_PROGRAM_ID in VersionedTransaction.from_bytes(raw).message.account_keys


def _call(query: TransactionQuery) -> Call:
    return ("getTransaction", query.tx, {"encoding": "json", "maxSupportedTransactionVersion": 0, **FINALIZED})


def _read(answer: Any, read: Callable[[Any], int]) -> int | None:
    if answer is None or isinstance(answer, RpcError):
        return None
    try:
        return read(answer)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _read_cost(tx: str) -> Callable[[Any], int]:
    def read(answer: Any) -> int:
        if read_tx(answer["transaction"]["signatures"][0]) != tx:
            raise ValueError("another transaction")
        meta = answer["meta"]
        # The first account is the relayer, which pays.
        cost = read_units(meta["preBalances"][0]) - read_units(meta["postBalances"][0])
        if cost < 0:
            raise ValueError("not a cost")
        return cost

    return read
