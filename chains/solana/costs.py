"""The costs of transactions: the fee, which is signed and always paid, and the rent of an account, if one is made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solders.transaction import VersionedTransaction

from chains.port import GasCost, TransactionQuery
from chains.rpc.agreement import find_agreed
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call, RpcError
from chains.solana.answers import FINALIZED, read_tx, read_units
from chains.solana.derivation import SIGNATURES
from chains.solana.instructions import UNIT_LIMIT
from chains.solana.steps import find_makers, read_steps
from foundation.kernel.assets import Asset
from foundation.kernel.money import from_base_units

_SIGNATURE_LAMPORTS = 5_000
_MICRO = 10**6


def find_fee(unit_price_micro_lamports: int, payments: int = 1) -> int:
    """Compute the fee of a transaction of so many payments, in lamports: for signatures, and all units it may use."""
    return SIGNATURES * _SIGNATURE_LAMPORTS - -payments * UNIT_LIMIT * unit_price_micro_lamports // _MICRO


def find_rent(lamports: int) -> int:
    """Compute the highest rent of a new account; `lamports` is the rent of a plain one. Those of Token-2022 are longer.

    A plain account counts as 293 bytes, an account for a mint with the extensions of PYUSD as 315.
    """
    return lamports * 5 // 4


def to_coins(lamports: int) -> Decimal:
    """Convert an amount to SOL."""
    return from_base_units(lamports, Asset.SOL)


def find_costs(nodes: Nodes, queries: Sequence[TransactionQuery]) -> dict[str, GasCost]:
    """Find the costs of finished transactions; see `Prover.find_costs`.

    Those that shared a transaction share its fee, and each of them has the rent of the account that it made.
    """
    makers = {one.tx: find_makers(read_steps(one.raw)) for one in queries}
    # A transaction that makes no account costs the fee that was signed: no node has to be asked.
    costs = {
        one.tx: GasCost(one.most_cost)
        for one in queries
        if not any(makers[one.tx].values()) and one.most_cost is not None
    }
    unknown = [one for one in queries if one.tx not in costs]
    if not unknown:
        return costs
    replies = nodes.ask_each([_call(one) for one in unknown])
    for index, one in enumerate(unknown):
        costs_lamports = [_read(reply.said[index], _read_cost(one, makers[one.tx])) for reply in replies]
        cost = find_agreed([lamports for lamports in costs_lamports if lamports is not None], nodes.quorum)
        if cost is not None:
            costs[one.tx] = cost.of(list(makers[one.tx]))
    return costs


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a transaction has cost, in lamports; `rents`: the parts of its payments, if there are several, for rent."""

    lamports: int
    rents: tuple[int, ...]

    def of(self, ids: Sequence[str]) -> GasCost:
        """Share it out to several payments. If somebody else has paid a part of it, too, nobody can tell the shares."""
        fee = self.lamports - sum(self.rents)
        if not self.rents or fee < 0:
            return GasCost(to_coins(self.lamports))
        share, left = divmod(fee, len(ids))
        shares = [rent + share + (place < left) for place, rent in enumerate(self.rents)]
        return GasCost(to_coins(self.lamports), dict(zip(ids, map(to_coins, shares), strict=True)))


def _call(query: TransactionQuery) -> Call:
    return ("getTransaction", query.tx, {"encoding": "json", "maxSupportedTransactionVersion": 0, **FINALIZED})


def _read(answer: Any, read: Callable[[Any], _Cost]) -> _Cost | None:
    if answer is None or isinstance(answer, RpcError):
        return None
    try:
        return read(answer)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _read_cost(query: TransactionQuery, makers: Mapping[str, str | None]) -> Callable[[Any], _Cost]:
    keys = list(map(str, VersionedTransaction.from_bytes(query.raw).message.account_keys))
    accounts = list(makers.values()) if len(makers) > 1 else []
    made = [None if one is None else keys.index(one) for one in accounts]

    def read(answer: Any) -> _Cost:
        if read_tx(answer["transaction"]["signatures"][0]) != query.tx:
            raise ValueError("another transaction")
        before, after = (list(map(read_units, answer["meta"][f"{when}Balances"])) for when in ("pre", "post"))
        # The first account is the relayer, which pays.
        cost = before[0] - after[0]
        if cost < 0:
            raise ValueError("not a cost")
        return _Cost(cost, tuple(0 if at is None else max(0, after[at] - before[at]) for at in made))

    return read
