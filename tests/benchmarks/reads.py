"""How often the API can be read, next to payments on the same server in the same turn."""

from foundation.api.paging import DEFAULT_PAGE_SIZE
from ledger.models import LogEntry
from payments.models import Payment
from tests.benchmarks.figures import Figure, figure, ratio
from tests.benchmarks.load import reads
from tests.benchmarks.site import Site

_CONNECTIONS = 8
_FAR = 10_000  # pages


def measure_reads(site: Site, rounds: int) -> dict[str, Figure]:
    """Read for a while in each turn; a page that the log is too short for is the last one that it has."""
    page = min(_FAR, LogEntry.objects.count() // DEFAULT_PAGE_SIZE)
    paths = {
        "log_first_page": ["/v1/logs"],
        "log_far_page": [f"/v1/logs?cursor={_cursor_of(page)}"],
        "budget": [f"/v1/agents/{agent}/budget" for agent in site.cast.agents],
        "payment": [f"/v1/payments/{pk}" for pk in Payment.objects.values_list("pk", flat=True)[:1000]],
    }
    paid: dict[str, list[float]] = {name: [] for name in paths}
    rates: dict[str, list[float]] = {name: [] for name in paths}
    costs: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, ways in paths.items():
            paid[name].append(site.drive(_CONNECTIONS).load.rate)
            found = site.ask(reads(site.cast.key, ways), _CONNECTIONS, site.seconds / 2)
            rates[name].append(found.load.rate)
            costs[name] = found.ms_each
    figures = {
        f"{name}_of_payments": ratio(found, paid[name], per_second=figure(found), processor_ms=costs[name])
        for name, found in rates.items()
    }
    figures["log_far_page_of_first"] = ratio(rates["log_far_page"], rates["log_first_page"], page=page)
    return figures


def _cursor_of(page: int) -> str:
    """Make the cursor that leads to a page of the whole log, counted from 1."""
    from foundation.api.cursors import write_cursor

    position = LogEntry.objects.order_by("-id").values_list("id", flat=True)[(page - 1) * DEFAULT_PAGE_SIZE - 1]
    return write_cursor(position, {"agentId": None, "result": None})
