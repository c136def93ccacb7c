"""What an agent asks for, and when: by day rather than by night, less often on weekends, more often every week."""

import hashlib
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from foundation.kernel.canonical import canonical_json
from foundation.kernel.money import format_amount
from foundation.kernel.times import to_milliseconds
from payments.deciding.requests import PaymentRequest
from workshop.demo.history.cast import AgentPlan

_HAS_METADATA = 0.25
_HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 10, 11, 12, 11, 9, 7, 5, 4, 4, 3, 3, 2)
_REASONS = (
    "Forecast for the route of tomorrow", "Three sources for the weekly brief", "Transcript of a support call",
    "Translation of a contract, 4 pages", "One hour of rendering", "Prices of the last trading day",
    "Check of a new customer's documents", "Photos for the spring page", "Two nights in Lisbon for the audit team",
    "Parcel to the Hamburg warehouse", "Backup of last night", "Answer to ticket",
)  # fmt: skip
_WEEKDAYS = (1, 1, 1, 1, 1, 0.35, 0.35)
_DAY = timedelta(days=1)


def make_requests(plan: AgentPlan, until: datetime) -> Iterator[tuple[datetime, PaymentRequest]]:
    """Make all requests of an agent before a moment, each with its own, in their order."""
    chance = random.Random(plan.seed)  # noqa: S311 - it makes examples
    for number, at in enumerate(_moments(plan, until, chance)):
        key = f"{plan.id}-{number:06}"
        cents = round(chance.lognormvariate(0, 0.7) * float(plan.usual_amount) * 100)
        amount = Decimal(max(1, cents)) / 100
        yield (
            at,
            PaymentRequest(
                agent_id=plan.id,
                service=chance.choice(plan.payees).id,
                amount=amount,
                amount_text=format_amount(amount),
                asset=plan.asset,
                reason=chance.choice(_REASONS),
                metadata_json=canonical_json({"invoice": f"INV-{key}"}).decode()
                if chance.random() < _HAS_METADATA
                else None,
                idempotency_key=key,
                fingerprint=hashlib.sha256(key.encode()).digest(),
            ),
        )


def _moments(plan: AgentPlan, until: datetime, chance: random.Random) -> list[datetime]:
    dates = [plan.began_at + timedelta(days=day) for day in range((until - plan.began_at).days)]
    weights = [(1 + day / len(dates)) * _WEEKDAYS[date.weekday()] for day, date in enumerate(dates)]
    moments = []
    for date in chance.choices(dates, weights, k=plan.decisions):
        midnight = date.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
        hour = chance.choices(range(24), _HOURS)[0]
        moment = midnight + timedelta(hours=hour, seconds=chance.random() * 3600)
        moments.append(to_milliseconds(moment - _DAY if moment >= until else moment))
    return sorted(moments)
