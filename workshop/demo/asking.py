"""Ask before paying: what would be decided, and that nothing is decided by that."""

from typing import Any

import requests

from workshop.demo.client import Api
from workshop.demo.promises import Order, Refusal
from workshop.demo.screen import Screen


def evaluate(api: Api, screen: Screen, order: Order, promised: Refusal) -> None:
    """Evaluate a payment that would be refused; the log has no more entries than before."""
    figures = ", ".join(f"{name} {value}" for name, value in promised.members.items())
    screen.step(f"What if {order}?", f"200 blocked, rule {promised.rule}, {figures}, and nothing is logged")
    before = _newest_entry(api, order.agent)
    answer = api.post("/v1/payments/evaluate", _body(order))
    found = answer.json()
    refusing: dict[str, Any] = next((one for one in found.get("rules", ()) if one["rule"] == found.get("rule")), {})
    is_unlogged = _newest_entry(api, order.agent) == before
    kept = answer.status_code == requests.codes.ok and found["code"] == promised.code
    kept = kept and promised.members.items() <= refusing.items() and is_unlogged
    screen.came(f"{answer.status_code} {found.get('result')}, rule {found.get('rule')}", as_promised=kept)
    screen.detail(found.get("message", ""))
    room = [f"{one['rule']} {one['headroom']}" for one in found.get("rules", ()) if one["passed"] and one["headroom"]]
    screen.detail(f"fits at {found.get('allowedAt')}; the others would still let pass: {', '.join(room)}")


def _body(order: Order) -> dict[str, Any]:
    asked = {"agentId": order.agent, "service": order.service, "amount": order.amount, "asset": order.asset}
    return {**asked, "reason": "The demo's story"}


def _newest_entry(api: Api, agent: str) -> Any:
    data = api.get("/v1/logs", agentId=agent, limit=1).json()["data"]
    return data[0]["id"] if data else None
