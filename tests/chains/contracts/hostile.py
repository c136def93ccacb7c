"""A token that misbehaves towards single payees, and the payments that meet it."""

from typing import Any

from eth_account import Account

from tests.chains.contracts.typed_data import Payment, payment_id
from tests.chains.contracts.world import World

MANNERS = (
    "Honest",
    "Reverts",
    "RevertsAtLength",
    "BurnsAllGas",
    "ReturnsAtLength",
    "ReturnsTwo",
    "ReturnsAByteLess",
    "ReturnsNothing",
    "Moves",
)


class Hostile:
    """The world with such a token."""

    def __init__(self, world: World, token: Any) -> None:
        self.world, self.token = world, token

    def payment(self, number: int, manner: str = "Honest", **changes: Any) -> Payment:
        """Make a payment to a payee of its own, towards whom the token behaves so."""
        payee = Account.from_key((1_000 + number).to_bytes(32)).address
        values = {"id": payment_id(number), "token": self.token.address, "recipient": payee}
        payment = self.world.payment(**(values | changes))
        self.behave(payment, manner)
        return payment

    def behave(self, payment: Payment, manner: str) -> None:
        call = self.token.functions.behave(payment.recipient, MANNERS.index(manner))
        self.world.send(call, self.world.stranger)

    def let_be_asked(self) -> None:
        """Have the escrow ask this token whether a payment was authorized and taken."""
        set_limits = self.world.escrow.functions.setAuthorizationLimits
        self.world.send(set_limits(self.token.address, 1, 0), self.world.owner)

    def behave_when_asked(self, payment: Payment, manner: str) -> None:
        self.let_be_asked()
        call = self.token.functions.behaveWhenAsked(payment.id, MANNERS.index(manner))
        self.world.send(call, self.world.stranger)
