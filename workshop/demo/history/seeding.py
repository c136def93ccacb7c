"""Make a history: what happened, then what waits for finance staff."""

import logging
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction

from backoffice.rollups import roll_up
from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from payments.models import Reconciliation
from payments.settling.leases import hold
from payments.tasks import observe_chain, reconcile_chain, watch_deposits
from policy.models import Agent, SignerSwitch
from policy.operations import switch_signer
from workshop.demo.history import scenery
from workshop.demo.history.cast import CHAINS, ELSEWHERE, LOCAL, Payee, Stage, make_agents, make_payees
from workshop.demo.history.life import History, Report
from workshop.demo.history.money_path import make_rows_of
from workshop.demo.history.webhooks import leave_failing
from workshop.demo.people import OLGA

_POLL_S = 0.2
_FEWEST_DAYS, _MOST_DAYS = 14, 90
# The newest comparison with the chain covers what was settled before this; see `scenery.compare_with_chain`.
_ENDS_BEFORE = timedelta(minutes=30)


def seed_history(payments: int, report: Report = lambda _count: None, *, seed: int | None = None) -> list[str]:
    """Make so many decisions, and all around them; returns the new agents. `report` gets how many there are so far.

    Raises:
        OperationRefused: the policy signer is out of service.
    """
    _prepare()
    now = utc_now()
    until = now - _ENDS_BEFORE
    days = max(_FEWEST_DAYS, min(_MOST_DAYS, payments // 50))
    stage = Stage(random.Random(seed), _new_suffix(), until - timedelta(days=days), until)  # noqa: S311 - examples
    payees = make_payees(stage)
    plans = make_agents(stage, payees, payments)
    with _saying_nothing():
        History(stage, payees, plans, _tokens()).play(report)
        _arrange(stage, payees, agents := [plan.id for plan in plans], now)
    roll_up(utc_now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return agents


def _arrange(stage: Stage, payees: Sequence[Payee], agents: Sequence[str], now: datetime) -> None:
    # No worker compares meanwhile: it would not know of what is settled here.
    with _alone(f"reconcile {LOCAL}"), transaction.atomic():
        scenery.set_money_aside(stage, agents, _tokens()[Asset.USDC])
        scenery.take_money_out(stage, agents[0])
        scenery.raise_an_alarm(stage, now)
        scenery.issue_keys(agents, now)
        leave_failing(payees, now)
        scenery.compare_with_chain(now - _ENDS_BEFORE / 2, now)


@contextmanager
def _saying_nothing() -> Iterator[None]:
    """Log no warnings: each would be dated now, and be of the past."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold a worker's lease as soon as it is free."""
    while True:
        with hold(name) as is_ours:
            if is_ours:
                yield
                return
        time.sleep(_POLL_S)


def _new_suffix() -> str:
    """Name the agents and payees of this run: those of the first one have plain names."""
    numbers = ("", *(f"-r{number}" for number in range(2, 1000)))
    return next(one for one in numbers if not Agent.objects.filter(pk=f"agent-research{one}").exists())


def _prepare() -> None:
    """Compare with the local chain before there is a history, as far as no worker has; make what decisions read."""
    if not SignerSwitch.objects.exists():
        switch_signer(is_signing=True, by=OLGA)
    if not SignerSwitch.objects.filter(is_signing=True).exists():
        raise OperationRefused("The policy signer is out of service: nothing would be approved.")
    if LOCAL in settings.CHAINS and not Reconciliation.objects.filter(chain=LOCAL).exists():
        for look in (observe_chain, watch_deposits, reconcile_chain):
            look(LOCAL)
    make_rows_of(CHAINS)


def _tokens() -> dict[str, str]:
    served = settings.CHAINS.get(LOCAL)
    if served is not None:
        return {str(asset): token for asset, token in served.tokens.items()}
    known = find_chain(ELSEWHERE)
    return {str(asset): known.tokens.get(asset, "") if known else "" for asset in Asset}
