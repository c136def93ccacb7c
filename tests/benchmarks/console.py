"""How long the pages of the console take with a long log: each is asked for a few times, one after the other.

In one process, by Django's own client: what a web server adds to a page is less than a millisecond. It is signed in as
somebody who may see everything.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.figures import Figure, figure, percentile

_LONGEST_MS = 300
_TERMS = ("agent-research", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "couriers")


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.console", description=__doc__)
    parser.add_argument("--log", type=int, default=1_000_000, help="Entries in the log (default: 1000000).")
    parser.add_argument("--rounds", type=int, default=5, help="How often each page is asked for (default: 5).")
    measure_apart("tests.benchmarks.console", measure, parser.parse_args())


def measure(options: argparse.Namespace) -> dict[str, Figure]:
    """Make a history, ask for each page, and print what each took; returns the slowest pages' figures."""
    from allowance.demo.history.seeding import seed_history
    from allowance.kernel.times import utc_now
    from backoffice.rollups import roll_up

    sys.stdout.write(f"Making a history of {options.log:,} decisions ...\n")
    began = time.perf_counter()
    seed_history(options.log, seed=1)
    seeded_s = time.perf_counter() - began
    began = time.perf_counter()
    roll_up(utc_now())
    return {
        **measure_pages(options.rounds),
        "seeded_per_second": figure([options.log / seeded_s]),
        "rolled_up_s": figure([time.perf_counter() - began], "s"),
    }


def measure_pages(rounds: int) -> dict[str, Figure]:
    """Ask for each page so often; the first answer, which loads templates and plans statements, does not count."""
    client = _sign_in()
    pages = dict(_find_pages())
    took: dict[str, list[float]] = {}
    for name, address in pages.items():
        answers = [_ask(client, name, address) for _ in range(rounds + 1)]
        took[name] = answers[1:]
    width = max(map(len, took))
    for name, values in sorted(took.items(), key=lambda one: -percentile(one[1], 50)):
        middle, late = percentile(values, 50), percentile(values, 95)
        mark = "✓" if late <= _LONGEST_MS else "✗"
        sys.stdout.write(f"{name:<{width}}  {middle:>7.1f} ms  p95 {late:>7.1f} ms  {mark}\n")
    slowest = max(took, key=lambda name: percentile(took[name], 95))
    return {"slowest_page": figure(took[slowest], "ms", page=slowest), "home_page": figure(took["home"], "ms")}


def _ask(client: Any, name: str, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    took_ms = 1000 * (time.perf_counter() - began)
    if answer.status_code != 200 or not content:
        raise RuntimeError(f"{name} at {address} answered {answer.status_code}.")
    return took_ms


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

    entry = Payment.objects.select_related("entry").order_by("id")[1000].entry
    return [str(entry.payment_id), str(entry.tx), str(entry.idempotency_key)]


if __name__ == "__main__":
    main()
