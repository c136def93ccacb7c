"""Pay each intent once. The server makes the idempotency keys, and remembers nothing: the log of the API is its memory.

An intent is: this agent pays this service this amount, after the newest payment of the same service and amount. So its
key follows from what the API remembers anyway, and every call for it, in any process, at any time, walks the same keys:

- A payment that is approved, or was settled within the last 24 hours, answers every repetition, however it is worded.
  Only who names that payment (`after_payment`) wants a further one.
- Key 1, 2, 3… of an intent: an approval is found again by everybody who comes to it. A refusal that is stored under a
  key is final, so nothing is ever paid under that key, and the next one is safe.
- Before a key is given up, the API is asked whether the payment would be approved now. Thus a model that loops writes
  nothing into the log.
- A payment that waits for a person's approval answers every repetition; so does one that they declined within the last
  24 hours. Only who names that one (`after_payment`) has them asked again.

docs/integrate/mcp.md tells why two calls never pay twice.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Protocol

from allowance_client import AsyncAllowance, PaymentState
from allowance_client.errors import AllowanceError, ApprovalPending, IdempotencyConflict

from allowance_mcp.arguments import Purchase
from allowance_mcp.outcomes import AlreadyPaid, Declined, Outcome, Paid, StillRefused, TooManyAttempts, Waiting, found

REMEMBERED = timedelta(hours=24)
# More attempts, or more failed payments in a row, are no accident: people must look.
MOST_ATTEMPTS, MOST_FAILED = 50, 50
# Behind how many refusals a payment is found again whose payee has not been sent it.
MOST_PRESENTED = 5


class Clock(Protocol):
    def __call__(self) -> datetime: ...


@dataclass(frozen=True, slots=True)
class Past:
    """The payments of a service and an amount: the newest that stands, and those that came to nothing after it.

    These have failed, or nobody has approved them; `declined` is the newest, if that is so of it.
    """

    standing: PaymentState | None
    void: tuple[str, ...]
    declined: PaymentState | None = None

    @property
    def newest_id(self) -> str:
        """The newest payment of all; void and standing ones alike part one intent from the next."""
        return self.void[0] if self.void else self.standing.id if self.standing else ""

    def is_named_by(self, payment_id: str) -> bool:
        """Tell whether somebody who names this payment knows what was paid last."""
        return payment_id in self.void or (self.standing is not None and payment_id == self.standing.id)


class Intents:
    """The intents of one agent. `now` is the clock of this machine, which is not trusted to let anybody pay."""

    def __init__(self, api: AsyncAllowance, agent_id: str, now: Clock = lambda: datetime.now(UTC)) -> None:
        self._api = api
        self._agent_id = agent_id
        self._now = now

    async def pay(self, wanted: Purchase) -> Outcome:
        """Pay once.

        Raises:
            AllowanceError: refused for the first time, or nothing is known; the same call may be made again.
            TooManyAttempts: people must look.
        """
        past = await self._look_back(wanted)
        if past.standing is not None and past.standing.is_pending:
            return Waiting(past.standing)
        if past.declined is not None and await self._is_over(past.declined, wanted):
            return Declined(past.declined)
        if wanted.after_payment is not None:
            if not past.is_named_by(wanted.after_payment):
                return AlreadyPaid(past.standing, is_misnamed=True)
        elif past.standing is not None and await self._stands(past.standing, wanted):
            return AlreadyPaid(past.standing, header=await self._find_header(wanted, past.standing))
        return await self._walk(wanted, past.newest_id)

    async def _find_header(self, wanted: Purchase, standing: PaymentState) -> str | None:
        """Get again what the payee of an earlier call has to be sent; None: it took the money, or was paid otherwise.

        Only a key that the standing payment is found under is asked for again: any other one would pay.
        """
        if wanted.requirements is None or standing.status != "approved":
            return None
        seen = [payment.id async for payment in self._api.payments(service=wanted.service, amount=wanted.amount)]
        before = dict(pairwise([*seen, ""]))[standing.id]
        for attempt in range(1, MOST_PRESENTED + 1):
            key = key_of(self._agent_id, wanted, before, attempt)
            async for earlier in self._api.payments(idempotency_key=key):
                if earlier.id == standing.id:
                    outcome = await self._try(wanted, key)
                    return outcome.header if isinstance(outcome, Paid) else None
        return None

    async def _look_back(self, wanted: Purchase) -> Past:
        void: list[str] = []
        declined: PaymentState | None = None
        async for payment in self._api.payments(service=wanted.service, amount=wanted.amount):
            if payment.status != "failed" and not payment.is_declined:
                return Past(payment, tuple(void), declined)
            if payment.is_declined and not void:
                declined = payment
            void.append(payment.id)
            if len(void) == MOST_FAILED:
                raise TooManyAttempts
        return Past(None, tuple(void), declined)

    async def _is_over(self, declined: PaymentState, wanted: Purchase) -> bool:
        """Tell whether nobody is to be asked again: who names the payment that was declined wants that."""
        if wanted.after_payment == declined.id:
            return False
        return await self._is_recent(declined.declined_at or declined.created_at, wanted)

    async def _stands(self, payment: PaymentState, wanted: Purchase) -> bool:
        """Tell whether a payment answers every repetition: it is under way, since whenever, or of the last day."""
        # When it was approved it does not tell: long after it was asked for, if a person had to.
        return payment.status == "approved" or await self._is_recent(_last_moment(payment), wanted)

    async def _is_recent(self, moment: datetime, wanted: Purchase) -> bool:
        if self._now() - moment < REMEMBERED:
            return True
        # A clock that is ahead here would let every repetition pay: the clock that dated the payment decides.
        evaluation = await self._api.evaluate(service=wanted.service, amount=wanted.amount, reason=wanted.reason)
        return evaluation.evaluated_at - moment < REMEMBERED

    async def _walk(self, wanted: Purchase, predecessor: str) -> Outcome:
        would_be_approved = False
        for attempt in range(1, MOST_ATTEMPTS + 1):
            key = key_of(self._agent_id, wanted, predecessor, attempt)
            outcome = await self._try(wanted, key)
            if outcome is not None:
                return outcome
            if not would_be_approved:
                evaluation = await self._api.evaluate(
                    service=wanted.service, amount=wanted.amount, reason=wanted.reason
                )
                if not (evaluation.is_approved or evaluation.is_held):
                    return StillRefused(evaluation)
                would_be_approved = True
        raise TooManyAttempts

    async def _try(self, wanted: Purchase, key: str) -> Outcome | None:
        """Request the payment under a key; None: a refusal is stored there, for this reason or for another one."""
        try:
            return await self._request(wanted, key)
        except IdempotencyConflict:
            # Another reason came first. It is decided and committed, so its payment, if there is one, is found.
            async for earlier in self._api.payments(idempotency_key=key):
                return found(earlier)
            return None
        except ApprovalPending as pending:
            return Waiting(pending.payment)
        except AllowanceError as error:
            if error.retry == "new_key" and error.is_replay and "heldBy" not in error.refusal.raw:
                return None
            raise  # what a person was asked for is not asked for again under another key

    async def _request(self, wanted: Purchase, key: str) -> Paid | Waiting:
        purchase: dict[str, Any] = {"service": wanted.service, "reason": wanted.reason, "idempotency_key": key}
        if wanted.requirements is not None:
            demanded = await self._api.pay_demand(**purchase, requirements=wanted.requirements)
            return Paid(await self._api.payment(demanded.id), demanded.header)
        payment = await self._api.pay(**purchase, amount=wanted.amount)
        if payment.is_pending:
            return Waiting(payment)
        return Paid(await self._api.payment(payment.id) if payment.is_replay else payment)


def _last_moment(payment: PaymentState) -> datetime:
    """Tell the last that is known of a payment: it was asked for, signed, or settled, maybe days apart."""
    signed_at = [one.created_at for one in payment.transactions[-1:]]
    return max([payment.created_at, *signed_at, payment.settled_at or payment.created_at])


def key_of(agent_id: str, wanted: Purchase, predecessor: str, attempt: int) -> str:
    """Make the idempotency key of an attempt. What it is made of never changes: two releases may run side by side."""
    parts = [agent_id, wanted.service, wanted.amount, predecessor, attempt]
    return f"mcp-{hashlib.sha256(json.dumps(parts, separators=(',', ':')).encode()).hexdigest()}"
