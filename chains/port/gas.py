"""The values of gas money: what relayers have, what payments cost at most, what transactions have cost. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from chains.port.transactions import NonceState


@dataclass(frozen=True, slots=True)
class RelayerState:
    """A relayer's gas money, and its nonces (None on a chain without nonces).

    Amounts are in units of the chain's own coin. `spendable` is the part of the `balance` that may be spent;
    `most_cost` the highest cost of another transaction; `locked` what an account of the chain must always keep. Where
    there are several nodes, two must confirm the balance.
    """

    balance: Decimal
    spendable: Decimal
    most_cost: Decimal
    nonces: NonceState | None
    locked: Decimal = Decimal(0)

    @property
    def affords(self) -> int:
        """The number of transactions that the gas money pays for, if none is in flight."""
        return int(self.spendable // self.most_cost)

    def missing_for(self, payments: int) -> Decimal:
        """Compute the gas money that the account needs besides to pay for a number of transactions."""
        return max(Decimal(0), self.locked + payments * self.most_cost - self.balance)


@dataclass(frozen=True, slots=True)
class GasCost:
    """What a transaction has cost, in units of the chain's own coin, and the shares of its orders, by escrow id.

    Where nobody can tell the shares (`of_orders` is empty), all are equal.
    """

    total: Decimal
    of_orders: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PaymentCosts:
    """The most that a payment costs, in units of the chain's own coin: at the price now, and at the highest allowed.

    Without nonces, only the highest one has the rent of an account that the first payment to a payee creates.
    """

    now: Decimal
    highest: Decimal
