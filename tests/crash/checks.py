"""What must be true at the end, whatever happened. Each check yields a sentence for everything that is not."""

import io
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache

from django.core.management import CommandError, call_command

from ledger.models import BalanceMovement, LevelPayment, LogEntry
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment, Settlement, Transition
from policy.models import Agent, PolicyRevision
from services.models import WebhookEvent
from tests.crash.chain_checks import (
    balances_are_deposits_less_settled,
    deposits_are_credited_once,
    escrows_hold_deposits_less_settled,
    every_payment_ended_as_the_chain_says,
    nobody_got_more_than_was_approved,
    nothing_is_missing_or_open,
    recipients_have_what_settled,
    reconcile_finds_nothing,
    signing_was_never_stopped,
)
from tests.crash.clients import APPROVED, unexpected
from tests.crash.evidence import Evidence
from tests.crash.payees import is_signed, secrets_of
from tests.support.invariants import check_agent
from tests.support.level_checks import find_wrong_levels

_REPLAYS = 60
_DAY, _WEEK = timedelta(hours=24), timedelta(days=7)


Check = Callable[[Evidence], Iterator[str]]


# --- What clients were told -------------------------------------------------------------------------------------------
def every_request_is_answered(evidence: Evidence) -> Iterator[str]:
    for request in evidence.world.clients.requests:
        if not request.is_answered:
            yield f"{request.agent} {request.key} was never answered: {request.answers[-1:]}"
    yield from unexpected(evidence.world.clients.requests)


def no_decision_is_lost(evidence: Evidence) -> Iterator[str]:
    """Every 201 is in the log; and what was decided under a key was decided once."""
    entries = {
        (entry.agent_id, entry.idempotency_key): entry for entry in LogEntry.objects.exclude(idempotency_key=None)
    }
    for request in evidence.world.clients.requests:
        entry = entries.pop((request.agent, request.key), None)
        approvals = {body for status, body in request.answers if status == APPROVED}
        if len(approvals) > 1:
            yield f"{request.agent} {request.key} has {len(approvals)} different approvals."
        for body in approvals:
            if entry is None or entry.payment_id != json.loads(body)["id"]:
                yield f"{request.agent} {request.key} was approved, and the log does not say so: {body!r}"
        if request.is_answered and entry is None:
            yield f"{request.agent} {request.key} was decided, and the log does not say so."
        if entry is not None and (entry.payment_id is not None) != bool(approvals):
            yield f"{entry.pk} is {entry.result}, which is not what {request.agent} was told."
    for entry in entries.values():
        yield f"{entry.pk} decides what nobody asked for."


def replays_are_the_same_bytes(evidence: Evidence) -> Iterator[str]:
    world = evidence.world
    approved = [request for request in world.clients.requests if request.approval is not None]
    retried = [request for request in approved if len(request.answers) > 1]
    others = [request for request in approved if len(request.answers) == 1]
    chance = random.Random(len(approved))
    for request in [*retried, *chance.sample(others, k=min(_REPLAYS, len(others)))]:
        response = world.clients.ask(request, world.house.url(world.some_web()))
        is_same = (response.status_code, response.content) == (APPROVED, request.approval)
        if not is_same or response.headers.get("Idempotent-Replayed") != "true":
            yield f"{request.agent} {request.key}: {request.approval!r} became {response.content!r}"


# --- What is written down ---------------------------------------------------------------------------------------------
def no_window_was_over_its_limit(evidence: Evidence) -> Iterator[str]:
    """At the instant of each approval: what was approved in the window up to it and was not given back by then."""
    for agent in Agent.objects.all():
        policy = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
        below = set(LevelPayment.objects.filter(level=agent).values_list("payment_id", flat=True))
        own = sorted(
            (one for one in evidence.payments.values() if one.agent_id == agent.pk or one.pk in below),
            key=lambda one: one.created_at,
        )
        for index, last in enumerate(own):
            for window, limit in ((_DAY, policy.daily_limit), (_WEEK, policy.weekly_limit)):
                spent = sum(
                    one.amount
                    for one in own[: index + 1]
                    if one.created_at > last.created_at - window
                    and (one.failed_at is None or one.failed_at > last.created_at)
                )
                if spent > limit:
                    yield f"{agent.pk} had spent {spent} of {limit} within {window} at {last.created_at}."


def the_log_verifies(evidence: Evidence) -> Iterator[str]:
    output = io.StringIO()
    try:
        call_command("verify_log", stdout=output, stderr=output)
    except CommandError as error:
        yield f"{error}\n{output.getvalue()}"


def every_agent_adds_up(evidence: Evidence) -> Iterator[str]:
    for agent in Agent.objects.all():
        try:
            check_agent(agent.pk)
        except AssertionError as error:
            yield f"{agent.pk}: {error!r}"


def every_level_counts_what_the_log_says(evidence: Evidence) -> Iterator[str]:
    levels = Agent.objects.filter(ancestors=[])
    for level in levels:
        yield from find_wrong_levels(level.pk)
    if not LevelPayment.objects.filter(level__in=levels).exists():
        yield "No agent under another one has paid."


def every_transition_is_recorded(evidence: Evidence) -> Iterator[str]:
    steps: dict[str, list[Transition]] = {}
    for transition in Transition.objects.order_by("id"):
        steps.setdefault(transition.settlement_id, []).append(transition)
    for row in Settlement.objects.all():
        own = steps.get(row.pk, [])
        # What somebody else has submitted was found when it had paid.
        first = SettlementState.SIGNED if row.raw else SettlementState.REPLACED
        states = [first, *(step.new for step in own)]
        if [step.old for step in own] != states[:-1] or states[-1] != row.state:
            yield f"{row.tx} is {row.state}; recorded is {[(step.old, step.new) for step in own]}."


def payees_are_told_once(evidence: Evidence) -> Iterator[str]:
    told: defaultdict[str, list[str]] = defaultdict(list)
    for event in WebhookEvent.objects.filter(type__startswith="payment."):
        told[json.loads(event.payload)["data"]["paymentId"]].append(event.type)
    for payment in Payment.objects.select_related("service"):
        wanted = sorted(["payment.approved", f"payment.{payment.status}"]) if payment.service.webhook_url else []
        if sorted(told[payment.pk]) != wanted:
            yield f"{payment.pk} is {payment.status}; its payee is told {told[payment.pk]}."


def every_event_was_received(evidence: Evidence) -> Iterator[str]:
    """Once or more often: whoever is killed between sending and recording has sent it."""
    received = {request.header("webhook-id"): request for request in evidence.world.payees.requests}
    secrets = cache(secrets_of)
    for event in WebhookEvent.objects.all():
        request = received.pop(event.pk, None)
        if request is None:
            yield f"{event.pk}, {event.type} of {event.service_id}, was never received."
        elif request.body.decode() != event.payload or not is_signed(request, secrets(event.service_id)):
            yield f"{event.pk} was received as {request}."
    for stranger in received:
        yield f"{stranger} was received, and no such event was written."


def given_back_in_full(evidence: Evidence) -> Iterator[str]:
    """What failed came back, once: the balance by a movement, the windows by its original time."""
    returned = {
        movement.payment_id: movement for movement in BalanceMovement.objects.filter(kind="return").order_by("id")
    }
    for pk, payment in evidence.payments.items():
        movement = returned.pop(pk, None)
        is_back = movement is not None and (movement.amount, movement.spent_at) == (payment.amount, payment.created_at)
        if is_back != (payment.status == PaymentStatus.FAILED):
            yield f"{pk} is {payment.status}; given back was {movement}."
    for stranger in returned:
        yield f"{stranger} was given back and never taken."


CHECKS: dict[str, Check] = {
    "every request was answered, and by nothing worse than 503": every_request_is_answered,
    "no decision is lost, none was taken twice": no_decision_is_lost,
    "a replay has the same bytes": replays_are_the_same_bytes,
    "every payment settled exactly once on its chain, or failed unpaid": every_payment_ended_as_the_chain_says,
    "nobody got more than was approved and not given back": nobody_got_more_than_was_approved,
    "recipients have what settled": recipients_have_what_settled,
    "what failed was given back, once": given_back_in_full,
    "every deposit is credited once": deposits_are_credited_once,
    "balances = deposits - settled": balances_are_deposits_less_settled,
    "the escrows hold deposits - settled": escrows_hold_deposits_less_settled,
    "signing was never stopped": signing_was_never_stopped,
    "reconcile finds nothing missing": reconcile_finds_nothing,
    "no rolling window was ever over its limit": no_window_was_over_its_limit,
    "no nonce gap, nothing left open": nothing_is_missing_or_open,
    "every transition is recorded": every_transition_is_recorded,
    "payees are told once of each turn": payees_are_told_once,
    "every event was received, as it was written and signed": every_event_was_received,
    "verify_log passes": the_log_verifies,
    "every agent adds up": every_agent_adds_up,
    "every level counts what the log says": every_level_counts_what_the_log_says,
}


def problems_of(name: str, evidence: Evidence, most: int = 8) -> list[str]:
    """Run one check; returns the first problems."""
    return list(itertools.islice(CHECKS[name](evidence), most))
