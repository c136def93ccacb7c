"""The log as evidence: read over HTTP, shown as a table, checked with nothing but the published keys."""

from typing import Any

from ledger.receipts import FIRST_PREVIOUS_HASH, ReceiptError, verify
from workshop.demo.client import Api
from workshop.demo.screen import Screen

_PAGE_SIZE = 10
_HEADINGS = ("time (UTC)", "agent", "service", "amount", "result", "rule", "signed")
_AMOUNT_COLUMN = _HEADINGS.index("amount")


def show_log(api: Api, screen: Screen, agents: list[str]) -> None:
    """Play the last steps: the agents' decisions as a table, their signatures, their hash chains, a forgery."""
    entries = [entry for agent in agents for entry in _read_log(api, agent)]
    keys = api.get("/.well-known/allowance-keys.json").json()["keys"]
    faults = {entry["id"]: _fault(entry, keys) for entry in entries}

    screen.heading("GET /v1/logs")
    newest_first = sorted(entries, key=lambda entry: str(entry["id"]), reverse=True)
    rows = [_row(entry, screen.mark(is_good=not faults[entry["id"]])) for entry in newest_first]
    screen.table([_HEADINGS, *rows], right=_AMOUNT_COLUMN)

    screen.step("Each entry bears the policy signer's signature", "every one verifies with the published keys")
    found = [fault for fault in faults.values() if fault]
    good = len(entries) - len(found)
    screen.came(" ".join([f"{good} of {len(entries)} verify.", *found[:1]]), as_promised=bool(entries) and not found)

    screen.step("The entries of an agent are a chain", "each names the hash of the one before")
    links = {agent: _count_links([entry for entry in entries if entry["agentId"] == agent]) for agent in agents}
    text = ", ".join(f"{agent}: {held} of {of}" for agent, (held, of) in links.items())
    screen.came(text, as_promised=all(held == of > 0 for held, of in links.values()))

    screen.step("Somebody changes one amount in an exported entry", "it is noticed")
    fault = _fault({**newest_first[0], "amount": "0.01"}, keys) if newest_first else ""
    screen.came(fault or "not noticed", as_promised=bool(fault))


def _read_log(api: Api, agent: str) -> list[dict[str, Any]]:
    """Read all pages of an agent's log, newest first."""
    entries: list[dict[str, Any]] = []
    query: dict[str, Any] = {"agentId": agent, "limit": _PAGE_SIZE}
    while True:
        page = api.get("/v1/logs", **query).json()
        entries += page["data"]
        if page["nextCursor"] is None:
            return entries
        query["cursor"] = page["nextCursor"]


def _fault(entry: dict[str, Any], keys: list[dict[str, Any]]) -> str:
    try:
        verify(entry, keys)
    except ReceiptError as error:
        return str(error)
    return ""


def _count_links(entries: list[dict[str, Any]]) -> tuple[int, int]:
    """Count the entries, newest first, that name the hash of the one before them; and all entries."""
    hashes = [*(entry["hash"] for entry in entries[1:]), FIRST_PREVIOUS_HASH]
    held = sum(entry["previousHash"] == before for entry, before in zip(entries, hashes, strict=True))
    return held, len(entries)


def _row(entry: dict[str, Any], mark: str) -> list[str]:
    amount = f"{entry['amount']} {entry['asset']}"
    time = entry["createdAt"][11:19]
    return [time, entry["agentId"], entry["service"], amount, entry["result"], entry["rule"], mark]
