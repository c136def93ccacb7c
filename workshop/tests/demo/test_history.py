"""A seeded history is evidence like any other: everything adds up. Everything that staff deal with is there."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Count, Sum

from backoffice.findings import find_work
from backoffice.models import DailyTotal, RollUp
from backoffice.rollups import roll_up
from foundation.kernel.errors import OperationRefused
from foundation.kernel.ids import first_id
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from ledger.queries import find_budgets
from payments.funding.expected_holdings import find_imbalances
from payments.funding.pools import read_pools
from payments.models import ChainState, Payment, Reconciliation, Relayer, Settlement, Withdrawal
from payments.reconciling.verification import Progress, verify_agent
from payments.tasks import observe_chain, reconcile_chain
from policy.models import Agent, PolicyRevision
from policy.objections import DAY, WEEK
from policy.operations import switch_signer
from services.dossiers import find_dossiers
from services.lookalikes import is_lookalike
from services.models import Service, WebhookDelivery
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.local_ids import LOCALNET
from workshop.demo.history.seeding import seed_history
from workshop.demo.people import BEN, FIONA, OLGA, ROLES

pytestmark = pytest.mark.django_db
NOW = utc_now()


@pytest.fixture(scope="module")
def agents(django_db_setup: None, django_db_blocker: Any) -> Iterator[list[str]]:
    """The agents of a small history, which all tests here look at."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield seed_history(400, seed=7)
        transaction.set_rollback(True)


def _payees_of(agents: list[str]) -> Any:
    return LogEntry.objects.filter(agent__in=agents).values("service")


def problems_of(agents: list[str]) -> list[str]:
    return [found.problem for agent in agents for found in verify_agent(agent, Progress())]


def test_all_its_evidence_is_valid_and_another_run_adds_more(agents):
    more = seed_history(60, seed=8)

    assert LogEntry.objects.filter(agent__in=agents).count() == 400
    assert LogEntry.objects.filter(agent__in=more).count() == 60
    assert not set(agents) & set(more)
    assert problems_of([*agents, *more]) == []


def test_its_books_balance_and_promises_are_held(agents):
    assert find_imbalances() == []
    assert [pool for pool in read_pools() if pool.is_overdrawn] == []


def test_the_chain_it_plays_on_is_compared_behind_it(agents):
    reconcile_chain(LOCALNET)

    newest = Reconciliation.objects.filter(chain=LOCALNET).order_by("-id")[:4]
    assert [(row.drift >= 0, row.unconfirmed) for row in newest] == [(True, [])] * 4
    assert sum(row.settled_total for row in newest) > 0


def test_the_ledger_counts_its_windows_as_they_were_counted(agents):
    for agent, budget in find_budgets(agents).items():
        spent = Payment.objects.filter(agent=agent).exclude(status="failed")
        naive = [
            sum(spent.filter(created_at__gt=utc_now() - width).values_list("amount", flat=True))
            for width in (DAY, WEEK)
        ]
        assert [budget.spent_today, budget.spent_this_week] == naive


def test_payments_and_payees_are_in_all_states(agents):
    services = Service.objects.filter(pk__in=_payees_of(agents))
    payments = Payment.objects.filter(agent__in=agents)

    assert set(payments.values_list("status", flat=True)) == {"approved", "settled", "failed"}
    assert set(Settlement.objects.filter(payments__in=payments).values_list("state", flat=True)) >= {
        "broadcast",
        "final",
        "expired",
    }
    assert {"approved", "pending_approval"} <= set(services.values_list("status", flat=True))
    assert {"rejected", "disabled"} <= set(Service.objects.values_list("status", flat=True))
    assert PolicyRevision.objects.filter(agent__in=agents, number__gt=1).exists()
    assert set(Agent.objects.filter(pk__in=agents).values_list("status", flat=True)) == {"active", "paused"}


def test_the_audit_says_who_changed_what_in_it(agents):
    revisions = PolicyRevision.objects.filter(agent__in=agents)
    of_policies = AuditEntry.objects.filter(subject__in=agents, action__in=("agent.created", "policy.changed"))

    told = of_policies.values_list("subject", "author", "at")
    assert sorted(told) == sorted(revisions.values_list("agent_id", "created_by", "created_at"))
    assert {"service.approved", "service.disabled", "agent.paused"} <= set(
        AuditEntry.objects.values_list("action", flat=True)
    )


def test_only_who_may_do_so_did_anything_in_it_and_no_limit_contradicts_another(agents):
    known = set(AuditEntry.objects.values_list("pk", flat=True))
    more = seed_history(60, seed=3)

    did = AuditEntry.objects.exclude(pk__in=known)
    by_key = ("service.registered", "service.changed")
    registrars = did.filter(action__in=by_key).values_list("author", flat=True)
    assert {author.partition(" ")[0] for author in registrars} == {"key"}
    did = did.exclude(action__in=by_key)
    assert set(did.values_list("author", flat=True)) <= {FIONA, BEN, OLGA}
    assert {ROLES[one.author] for one in did if one.action.startswith(("service.", "agent.", "policy."))} == {"Finance"}
    keys = did.filter(action__startswith="api_key.")
    assert set(keys.values_list("author", flat=True)) == {OLGA}
    assert set(Withdrawal.objects.filter(agent__in=[*agents, *more]).values_list("author", flat=True)) == {FIONA}
    for one in PolicyRevision.objects.filter(agent__in=[*agents, *more]):
        assert one.max_per_payment <= one.daily_limit <= one.weekly_limit


@pytest.mark.usefixtures("agents")
def test_it_is_known_which_key_registered_each_payee():
    payees = list(Service.objects.filter(registrations__registered_at__lt=utc_now() - timedelta(days=3)).distinct())

    assert payees
    assert "not known" not in {dossier.key for dossier in find_dossiers(payees)}


def test_a_payee_that_waits_looks_like_a_known_one(agents):
    waiting, approved = (Service.objects.filter(status=status) for status in ("pending_approval", "approved"))

    assert any(
        is_lookalike(new.chain, new.address, known.chain, known.address) for new in waiting for known in approved
    )


def test_there_is_something_of_all_kinds_to_deal_with(agents):
    kinds = {finding.kind.name for finding in find_work()}

    assert kinds >= {"chains", "outflows", "approvals", "deposits", "limit", "unsettled", "keys", "webhooks failing"}


def test_it_takes_no_nonce_of_a_relayer_and_leaves_what_was_seen_of_chains(agents):
    observe_chain(LOCALNET)
    before = _seen()

    more = seed_history(60, seed=5)

    assert _seen() == before
    assert Payment.objects.filter(agent__in=more, chain=LOCALNET, status="settled").exists()


def _seen() -> list[list[Any]]:
    return [list(Relayer.objects.order_by("pk").values()), list(ChainState.objects.filter(chain=LOCALNET).values())]


def test_without_a_signer_nothing_is_made(agents):
    switch_signer(is_signing=False, by=OLGA)
    decided = LogEntry.objects.count()

    with pytest.raises(OperationRefused, match="out of service"):
        seed_history(10)

    assert LogEntry.objects.count() == decided


def test_most_of_its_webhooks_arrived_and_some_wait(agents):
    deliveries = WebhookDelivery.objects.filter(endpoint__service__in=_payees_of(agents))

    states = set(deliveries.values_list("state", flat=True))
    assert states == {"delivered", "failed", "waiting"}
    assert not deliveries.filter(state="waiting", next_attempt_at__lt=utc_now()).exists()
    assert deliveries.filter(event__type="payment.settled", state="delivered").exists()


def test_the_command_says_how_fast_it_was(db):
    printed, failure = run("seed_history", "--payments", "20", "--seed", "1")

    assert failure is None
    assert json.loads(printed[-1])["entries"] == 20


def test_the_pictures_have_what_another_run_adds_to_days_that_were_closed(agents):
    roll_up(NOW + 2 * DAY)
    assert RollUp.objects.get().open_day > NOW.date()

    seed_history(100, seed=9)

    state = RollUp.objects.get()
    logged = LogEntry.objects.filter(id__lt=first_id("log", state.entries_until)).values_list("result")
    told = DailyTotal.objects.exclude(result="failed").values_list("result")
    assert dict(told.annotate(Sum("count"))) == dict(logged.order_by("result").annotate(Count("pk")))
    assert sum(row.count for row in DailyTotal.objects.exclude(result="failed")) >= 500


def test_outside_the_embedded_mode_it_does_not_touch_agents_that_are_there(settings, agents):
    settings.EMBEDDED = False

    assert run("seed_history", "--payments", "5")[1].startswith("There are agents here")
