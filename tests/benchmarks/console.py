"""How long the pages of the console take with a long log: each is asked for a few times, one after the other.

In one process, by Django's own client: what a web server adds to a page is less than a millisecond. It is signed in as
somebody who may see everything.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.figures import Figure, figure, percentile

_LONGEST_MS = 300
_LIVED = 3_000
_TERMS = ("agent-research", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "couriers")


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.console", description=__doc__)
    parser.add_argument("--log", type=int, default=1_000_000, help="Entries in the log (default: 1000000).")
    parser.add_argument("--rounds", type=int, default=5, help="How often each page is asked for (default: 5).")
    measure_apart("tests.benchmarks.console", measure, parser.parse_args())


def measure(options: argparse.Namespace) -> dict[str, Figure]:
    """Make a history, ask for each page, and print what each took; returns the slowest pages' figures.

    A few thousand decisions are made as in life, with all around them; the rest of the log is rows.
    """
    from backoffice.rollups import forget_totals, roll_up
    from foundation.kernel.times import utc_now
    from policy.models import Agent
    from services.models import Service
    from tests.benchmarks.seed import Cast, write_history
    from workshop.demo.history.seeding import seed_history

    lived = min(options.log, _LIVED)
    sys.stdout.write(f"Making {lived:,} decisions of {options.log:,} ...\n")
    seed_history(lived, seed=1)
    agents = list(Agent.objects.filter(asset="USDC").values_list("pk", flat=True))
    payee = Service.objects.filter(asset="USDC", status="approved").earliest("pk")
    write_history(Cast(agents, [], [], [], payee.pk, key="", spare=[]), options.log - lived)
    forget_totals()
    began = time.perf_counter()
    roll_up(utc_now())
    rolled_up_s = time.perf_counter() - began
    return {**measure_pages(options.rounds), "rolled_up_s": figure([rolled_up_s], "s")}


def measure_pages(rounds: int) -> dict[str, Figure]:
    """Ask for each page so often; the first answer, which loads templates and plans statements, does not count."""
    client = _sign_in()
    took: dict[str, list[_Turn]] = {}
    for name, address in _find_pages():
        took[name] = [_ask(client, name, address) for _ in range(rounds + 1)][1:]
    figures = {name: figure([turn.took_ms for turn in turns], "ms") for name, turns in took.items()}
    ranked = sorted(figures, key=lambda name: -float(figures[name]["median"]))
    width = max(map(len, ranked))
    for name in ranked:
        sys.stdout.write(f"{name:<{width}}  {_describe(took[name])}\n")
    return {"slowest_page": {**figures[ranked[0]], "details": {"page": ranked[0]}}, "home_page": figures["home"]}


@dataclass(frozen=True, slots=True)
class _Turn:
    """How long a page took, and how long it used the processor, here and in the database."""

    took_ms: float
    here_ms: float
    database_ms: float


def _describe(turns: list[_Turn]) -> str:
    took = [turn.took_ms for turn in turns]
    here = statistics.median(turn.here_ms for turn in turns)
    database = statistics.median(turn.database_ms for turn in turns)
    late = percentile(took, 95)
    mark = "✓" if late <= _LONGEST_MS else "✗"
    processor = f"processor: console {here:.0f}, PostgreSQL {database:.0f}"
    return f"{statistics.median(took):>7.1f} ms  p95 {late:>7.1f} ms  {mark}  {processor}"


def _ask(client: Any, name: str, address: str) -> _Turn:
    began, here, database = time.perf_counter(), time.process_time(), _database_s()
    answer = client.get(address, follow=True)  # some lists are a page of their own
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    turn = _Turn(
        1000 * (time.perf_counter() - began),
        1000 * (time.process_time() - here),
        1000 * (_database_s() - database),
    )
    if answer.status_code != 200 or not content:
        raise RuntimeError(f"{name} at {address} answered {answer.status_code}.")
    return turn


def _database_s() -> float:
    """Read how long the session of the database has used the processor; Linux alone tells."""
    from django.db import connection

    connection.ensure_connection()
    told = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return int(told.read_text().split()[0]) / 1e9 if told.exists() else 0


def _sign_in() -> Any:
    from django.contrib.auth.models import User
    from django.test import Client

    user = User.objects.create_superuser("bench")
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    return client


def _find_pages() -> Iterator[tuple[str, str]]:
    """Find every list, with its filters, the page of its newest row, and what stands beside them."""
    from django.contrib import admin
    from django.contrib.admin.utils import quote
    from django.urls import reverse

    yield "home", reverse("admin:index")
    for term in (*_TERMS, *_ids()):
        yield f"search {term[:12]}", f"{reverse('backoffice:search')}?q={term}"
    site: Any = admin.site
    for model in sorted(site._registry, key=str):
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        row = model.objects.first()
        if row is None:
            continue
        address = reverse(f"admin:{name}_changelist")
        yield f"{name} list", address
        yield f"{name} page", reverse(f"admin:{name}_change", args=[quote(str(row.pk))])
        yield from ((f"{name} {query}", f"{address}?{query}") for query in _QUERIES.get(name, ()))


_QUERIES = {
    "policy_agent": ("by=day", "by=runway", "need=limit", "q=agent-research"),
    "payments_payment": ("status__exact=failed", "status__exact=approved", "q=agent-research"),
    "ledger_logentry": ("result__exact=blocked", "rule=under_daily_limit", "q=agent-research"),
    "services_service": ("status__exact=pending_approval",),
    "payments_deposit": ("state__exact=aside",),
    "services_webhookdelivery": ("overdue=yes", "state__exact=failed"),
}


def _ids() -> list[str]:
    """Name a payment, its transaction and its idempotency key, as people search for them."""
    from payments.models import Payment

    entry = Payment.objects.select_related("entry").earliest("id").entry
    return [str(entry.payment_id), str(entry.tx), str(entry.idempotency_key)]


if __name__ == "__main__":
    main()
