"""Steps with payments: found, looked at, exported."""

import csv
import io
from decimal import Decimal
from pathlib import Path

from tests.days.agents import Agents
from tests.days.people import Person

PAYMENTS = "/console/payments/payment/"


def find_by_key(person: Person, key: str, payment_id: str) -> None:
    """Type an idempotency key into the one search box and open the payment that it finds."""
    person.open("/console/")
    person.page.get_by_role("searchbox").fill(key)
    person.page.get_by_role("button", name="Find").click()
    person.page.wait_for_load_state()
    person.click(payment_id)
    assert person.page.get_by_role("heading", name=payment_id).is_visible()
    assert key in person.text


def is_receipt_verified(person: Person) -> None:
    """See the verified mark on the payment's page and on its receipt for printing."""
    assert "✓ Verified just now." in person.text
    person.click("Receipt for printing")
    assert "✓ Verified" in person.text


def export_payments(person: Person, agent: str) -> list[dict[str, str]]:
    """Filter the payments of an agent and take them away as CSV, which has the sum that the page shows."""
    person.open(PAYMENTS)
    person.content.locator("#changelist-filter summary").click()
    person.fill("Agent", agent)
    person.click("Filter")
    with person.page.expect_download() as download:
        person.content.get_by_role("link", name="Export as CSV").click()
    text = Path(download.value.path()).read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    sums = person.content.locator(".sums tbody tr td:last-child").all_inner_texts()
    assert sum(Decimal(one.replace(",", "")) for one in sums) == total(rows)
    return rows


def total(rows: list[dict[str, str]]) -> Decimal:
    return sum((Decimal(row["amount"]) for row in rows), Decimal(0))


def approved_in_log(agents: Agents, agent: str) -> dict[str, Decimal]:
    """Read an agent's approvals from the API: the amount by payment."""
    found: dict[str, Decimal] = {}
    cursor = None
    while True:
        query = {"agentId": agent, "result": "approved", "limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = agents.get("/v1/logs", **query).json()
        found |= {entry["id"]: Decimal(entry["amount"]) for entry in page["data"]}
        cursor = page["nextCursor"]
        if cursor is None:
            return found


def buttons_seen_by(person: Person) -> list[str]:
    """Open each list and the page of its first row; returns the buttons that would change something."""
    found = []
    person.open("/console/")
    paths = person.page.locator("#pages a").evaluate_all("links => links.map(link => link.pathname)")
    for path in paths:
        person.open(path)
        found += _changing(person)
        rows = person.content.locator("#result_list tbody th a")
        if rows.count():
            rows.first.click()
            person.page.wait_for_load_state()
            found += _changing(person)
    return found


def _changing(person: Person) -> list[str]:
    """Find the buttons of forms that are not sent by GET, and the boxes of rows."""
    words = person.content.locator("form:not([method=get]):not([role=search]) button:visible").all_inner_texts()
    boxes = person.content.locator("input[name=_selected_action], .row-actions").count()
    adds = person.content.locator("a.button[href$='/add/']").count()
    return [f"{person.page.url}: {one}" for one in [*words, *["boxes"] * bool(boxes), *["add"] * bool(adds)]]
