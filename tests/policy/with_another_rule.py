"""A program: open what shows rules, in a process whose policy has one rule more than ours; prints what was shown.

The rule is added before anything else has read `RULES`, as if it stood there. All that it needs to be seen is in it.
Pages, API and tools are asked in this process and in one transaction, which is taken back.
"""

import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from html import unescape
from re import sub
from typing import Any

from foundation.kernel.errors import BudgetExceeded
from policy import rules
from policy.objections import DAY, WindowLimit
from policy.rule import Rule, Words

HALF_A_DAY = WindowLimit(
    "half-daily limit",
    DAY,
    lambda facts: facts.daily_limit / 2,
    lambda facts: facts.spent_today,
    ("spentSoFar", "halfLimit"),
)
ANOTHER = Rule(
    "under_half_a_day",
    BudgetExceeded,
    HALF_A_DAY.check,
    Words("Within half of a day's limit", "Above half of a day's limit", "half of a day"),
    varies=True,
    figures=HALF_A_DAY.figures,
    record=HALF_A_DAY.record,
    examples=({"spent_today": Decimal("24.90")},),
)


def add(rule: Rule) -> None:
    """Put a rule before the last one, which names what all let pass."""
    rules.RULES = (*rules.RULES[:-1], rule, rules.RULES[-1])
    rules._RULE_OF_NAME[rule.name] = rule
    rules.RULE_NAMES = tuple(one.name for one in (*rules.RULES, rules.SIGNER_RULE))


def look() -> Iterator[tuple[str, Any]]:
    """Let an agent, of which 50 may be spent a day, pay 10 twice, and be refused 6; then open all that tells of it."""
    # The rule comes first, then the settings, then these.
    from django.contrib.auth.models import User  # noqa: PLC0415

    from backoffice.rollups import LAG, forget_totals, roll_up  # noqa: PLC0415
    from foundation.kernel.times import utc_now  # noqa: PLC0415
    from ledger.models import LogEntry  # noqa: PLC0415
    from tests.foundation.console.conftest import Person  # noqa: PLC0415
    from tests.support.api import Api  # noqa: PLC0415
    from tests.support.commands import run  # noqa: PLC0415
    from tests.support.factories import make_agent, make_api_key, make_service, new_name  # noqa: PLC0415

    agent, service = make_agent(), make_service()
    key = make_api_key(agent=agent)
    api, person = Api(key), Person(User.objects.create_superuser(new_name("ada")))
    asked = {"agentId": agent.id, "service": service.id, "asset": "USDC", "reason": "A test"}
    evaluated = {name: asked[name] for name in ("agentId", "service", "asset", "reason")}

    yield "evaluation of what passes", api.post("/v1/payments/evaluate", {**evaluated, "amount": "10"}).json()
    paid, _ = (api.pay({**asked, "amount": "10"}).json() for _ in range(2))
    yield "refusal", api.pay({**asked, "amount": "6"}).json()
    yield "evaluation of what is refused", api.post("/v1/payments/evaluate", {**evaluated, "amount": "6"}).json()
    yield "log", api.get("/v1/logs", {"agentId": agent.id}).json()
    yield "document", api.get("/v1/openapi.json").json()

    def read(page: Any) -> str:
        content = b"".join(page.streaming_content) if page.streaming else page.content
        return f"{page.status_code} {' '.join(unescape(sub(r'<[^>]+>', ' ', content.decode())).split())}"

    forget_totals()
    roll_up(utc_now() + LAG)
    refused = LogEntry.objects.get(agent=agent, result="blocked")
    approved = LogEntry.objects.get(payment_id=paid["id"])
    yield "page of an approved payment", read(person.get("payments_payment_change", paid["id"]))
    yield "entry of an approved payment", read(person.get("ledger_logentry_change", approved.id))
    yield "entry of a refused payment", read(person.get("ledger_logentry_change", refused.id))
    yield "receipt of a refused payment", read(person.get("ledger_logentry_receipt", refused.id))
    yield "list of decisions", read(person.get("ledger_logentry_changelist"))
    yield "list of its refusals", read(person.get("ledger_logentry_changelist", rule=ANOTHER.name))
    yield "export of its refusals", read(person.get("ledger_logentry_changelist", rule=ANOTHER.name, export="csv"))
    yield "agent", read(person.get("policy_agent_change", agent.id))
    yield "search", read(person.client.get("/console/search/", {"q": refused.id}))
    yield "home", read(person.get("index"))
    for daily in ("16", "60"):
        limits = {"max_per_payment": "10", "daily_limit": daily, "weekly_limit": "100", "allows": "all"}
        yield f"preview of {daily} a day", read(person.post("policy_agent_policy", agent.id, **limits))
    yield from _ask_the_tools(key, agent.id, service.id)
    yield "verified log", run("verify_log", f"--agent={agent.id}")


def _ask_the_tools(key: str, agent_id: str, service: str) -> Iterator[tuple[str, Any]]:
    """Call tools of models; what their client sends is answered here."""
    import httpx  # noqa: PLC0415
    from allowance_client import AsyncAllowance  # noqa: PLC0415
    from allowance_mcp.tools import Caller, call  # noqa: PLC0415
    from asgiref.sync import async_to_sync, sync_to_async  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    def answer(request: httpx.Request) -> httpx.Response:
        known = {name: value for name, value in request.headers.items() if name.startswith(("auth", "idem"))}
        answered = Client(SERVER_NAME="localhost").generic(
            request.method, str(request.url.raw_path, "ascii"), request.content, "application/json", headers=known
        )
        return httpx.Response(answered.status_code, headers=dict(answered.headers), content=answered.content)

    async def ask() -> list[Any]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(sync_to_async(answer))) as http:
            caller = Caller(AsyncAllowance("http://127.0.0.1", key, http=http), agent_id)
            purchase = {"service": service, "amount": "6"}
            asked = [("evaluate_payment", purchase), ("request_payment", {**purchase, "reason": "A test"})]
            return [
                (await call(name, caller, arguments)).content for name, arguments in [*asked, ("list_decisions", {})]
            ]

    # The loop has a thread of its own, and what is asked there is answered in this one, which has the transaction.
    yield from zip(("tool that evaluates", "tool that pays", "tool that lists"), async_to_sync(ask)(), strict=True)


def main() -> None:
    """Print everything, by its name, as JSON."""
    add(ANOTHER)

    from allowance.boot import boot  # noqa: PLC0415

    boot()
    import django  # noqa: PLC0415
    from django.db import transaction  # noqa: PLC0415
    from django.test.utils import setup_test_environment  # noqa: PLC0415

    django.setup()
    setup_test_environment()
    with transaction.atomic():
        shown = dict(look())
        transaction.set_rollback(True)
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
