"""Ask a person: a payment above what an agent pays by itself waits until somebody has approved it."""

import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import requests

from ledger.models import HoldAnswer
from payments.holding.answering import answer_hold
from policy.limits import Limits
from policy.more_limits import MoreLimits
from policy.operations import set_policy
from workshop.demo.client import Api
from workshop.demo.promises import Order, Payment
from workshop.demo.screen import Screen
from workshop.demo.seed import STAFF
from workshop.demo.steps import Steps

_ANSWERED_WITHIN_S = 30
_POLL_S = 0.1
_ACCEPTED, _CREATED = requests.codes.accepted, requests.codes.created


def ask_a_person(steps: Steps, api: Api, screen: Screen, order: Order, above: str) -> None:
    """Have an agent ask for more than `above`: it is told to wait, a person approves, and the same key is paid."""

    def ask_above(present: Limits) -> Limits:
        return replace(present, more=MoreLimits(approval_above=Decimal(above)))

    change = f"has {order.agent} ask a person above {above} {order.asset}"
    steps.act_as_staff(change, lambda: set_policy(order.agent, change=ask_above, by=STAFF))
    key, body = f"demo-person-{order.agent}", order.body(0)
    screen.step(str(order), "202 pending_approval, rule under_approval_limit, approvalExpiresAt, nothing is signed")
    held = api.pay(body, key)
    found = held.json()
    is_held = (held.status_code, found.get("status"), found.get("tx", "")) == (_ACCEPTED, "pending_approval", None)
    screen.came(f"{held.status_code} {found.get('status')}, rule {found.get('rule')}", as_promised=is_held)
    screen.detail(f"{found.get('message')} It waits until {found.get('approvalExpiresAt')}.")
    if not is_held:
        return
    approve = f"approves {found['id']}"
    steps.act_as_staff(
        approve, lambda: answer_hold(found["id"], HoldAnswer.APPROVE, by=STAFF, reason="It is what we asked for.")
    )
    _follow(steps, api, screen, Payment(order, body, key, held))


def _follow(steps: Steps, api: Api, screen: Screen, asked: Payment) -> None:
    """Ask with the same key until it has its outcome: the payment has the id that it had while it waited."""
    payment_id = asked.answer.json()["id"]
    screen.step("The same request again, now that a person has approved it", f"201 approved, {payment_id}")
    end = time.monotonic() + _ANSWERED_WITHIN_S
    answer = asked.answer
    while answer.status_code == _ACCEPTED and time.monotonic() < end:
        time.sleep(_POLL_S)
        answer = api.pay(asked.body, asked.key)
    came: dict[str, Any] = answer.json()
    is_paid = (answer.status_code, came.get("id")) == (_CREATED, payment_id)
    screen.came(f"{answer.status_code} {came.get('status')}, {came.get('id')}", as_promised=is_paid)
    if is_paid:
        steps.settle(Payment(asked.order, asked.body, asked.key, answer))
