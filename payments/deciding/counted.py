"""What the optional limits of a policy compare, as the database counts it: see `ledger/sql/tallies.sql`."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from decimal import Decimal
from operator import add


@dataclass(frozen=True, slots=True)
class CountedRecord:
    """What optional limits compare, whoever is paid; None where nothing needs it. `payments`: of all time.

    That is None, too, if the tally of payments has not come as far as the log, see `ledger/sql/tallies.sql`.
    """

    spent_this_hour: Decimal | None
    spent_this_month: Decimal | None
    spent_ever: Decimal | None
    payments_this_hour: Decimal | None
    payments_today: Decimal | None
    payments: Decimal | None

    def after(self, paid: Decimal, payments: int) -> "CountedRecord":
        """Return the same after so many more payments of the agent, which paid so much."""
        spent = (self.spent_this_hour, self.spent_this_month, self.spent_ever)
        made = (self.payments_this_hour, self.payments_today, self.payments)
        return CountedRecord(*_add_to(spent, paid), *_add_to(made, payments))


@dataclass(frozen=True, slots=True)
class PayeeCountedRecord:
    """What limits of single payees compare; None where nothing needs it. `spent`: at this payee in all, until now."""

    spent_today: Decimal | None
    spent_this_week: Decimal | None
    payments: Decimal
    spent: Decimal

    def after(self, paid: Decimal, payments: int) -> "PayeeCountedRecord":
        """Return the same after so many more payments to the payee, which paid so much."""
        today, this_week = _add_to((self.spent_today, self.spent_this_week), paid)
        return PayeeCountedRecord(today, this_week, self.payments + payments, self.spent + paid)


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """What an agent and all below it have held for a person's approval.

    Of that, what is for the payee of a request, and the agent's own: the amount `own`, and the number.
    """

    amount: Decimal
    payments: Decimal
    to_payee: Decimal
    payee_payments: Decimal
    own: Decimal
    own_payments: Decimal

    def after(self, more: "HeldRecord") -> "HeldRecord":
        """Return the same after so much more was held."""
        return HeldRecord(*map(add, astuple(self), astuple(more)))


_ZERO = Decimal(0)
NOTHING_HELD = HeldRecord(_ZERO, _ZERO, _ZERO, _ZERO, _ZERO, _ZERO)


def _add_to(figures: Iterable[Decimal | None], more: Decimal | int) -> list[Decimal | None]:
    return [None if figure is None else figure + more for figure in figures]
