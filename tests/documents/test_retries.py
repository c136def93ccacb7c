"""The code of docs/integrate/retries.md, in both languages, against real servers: refusing, away, out of service."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
from django.db import connection

from chains.contracts.node_packages import run_script
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Payment
from policy.models import Agent
from policy.operations import pause_agent, switch_signer
from tests.documents.pages import blocks_of
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.javascript import install_or_skip
from tests.support.servers import Servers

PAGE = "docs/integrate/retries.md"
TYPESCRIPT = Path(__file__).parent / "typescript"
pytestmark = pytest.mark.usefixtures("committed")


@dataclass(frozen=True, slots=True)
class Told:
    """How a call of the page's code ended: the payment, or what was thrown."""

    payment: dict[str, Any] | None = None
    threw: str = ""
    error: dict[str, Any] | None = None
    retry_after_s: int | None = None


Pay = Callable[..., Told]


def code_in(language: str) -> str:
    """Give the page's functions in a language; the block after them is their use."""
    functions, _use = (block.text for block in blocks_of(PAGE) if block.language == language)
    return functions


def python_pay(url: str, key: str, name: str, body: dict[str, Any], patience_s: float, *, until_allowed: bool) -> Told:
    scope: dict[str, Any] = {}
    exec(code_in("python"), scope)  # noqa: S102 - our own page
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S) as api:
        try:
            return Told(scope["pay_when_allowed" if until_allowed else "pay"](api, name, body, patience_s))
        except scope["Refused"] as refused:
            return Told(threw="Refused", error=refused.error, retry_after_s=refused.retry_after_s)
        except TimeoutError:
            return Told(threw="Error")


@pytest.fixture(scope="module", params=["python", "typescript"])
def pay(request, tmp_path_factory) -> Pay:
    """Pay with the code of the page, in each language: the same arguments, the same answer."""
    if request.param == "python":
        return python_pay
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.ts").write_text(code_in("typescript"))
    compiled = folder / "page.mjs"
    faults = run_script(
        TYPESCRIPT / "compile.mjs", install_or_skip(TYPESCRIPT), folder / "page.ts", compiled, question=None
    )
    assert faults == []

    def typescript_pay(url, key, name, body, patience_s, *, until_allowed):
        call = "payWhenAllowed" if until_allowed else "pay"
        asked = {"call": call, "arguments": [{"url": url, "key": key}, name, body, patience_s]}
        told = run_script(TYPESCRIPT / "run.mjs", compiled, question=asked)
        return Told(told.get("returned"), told.get("threw", ""), told.get("error"), told.get("retryAfterS"))

    return typescript_pay


@dataclass(frozen=True, slots=True)
class Purchase:
    """What an agent buys: its key of the API, the name of the order, and the body."""

    api_key: str
    order: str
    body: dict[str, Any]

    @property
    def agent_id(self) -> str:
        return str(self.body["agentId"])

    def pay(self, pay: Pay, url: str, patience_s: float = 60, *, until_allowed: bool = True) -> Told:
        return pay(url, self.api_key, self.order, self.body, patience_s, until_allowed=until_allowed)


def purchase(amount="1.00", **agent) -> Purchase:
    buyer, service = make_agent(**agent), make_service()
    body = {"agentId": buyer.id, "service": service.id, "amount": amount, "asset": "USDC", "reason": "A test"}
    return Purchase(make_api_key(agent=buyer), new_name("order"), body)


class Unreliable(ThreadingHTTPServer):
    """A proxy that passes requests on, and does with the first ones what it is told to: see `_Handler`.

    `mend` is called once, as soon as the server has answered 503.
    """

    def __init__(self, target: str, *faults: str, mend: Callable[[], object] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.faults, self.mend, self.keys = target, list(faults), mend, list[str]()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Unreliable

    def do_POST(self) -> None:
        self.server.keys.append(self.headers["Idempotency-Key"])
        fault = self.server.faults.pop(0) if self.server.faults else ""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if fault == "lose the request":
            return
        if fault == "bad gateway":
            self._send(502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>")
            return
        sent = {name: self.headers[name] for name in ("Authorization", "Content-Type", "Idempotency-Key")}
        answer = httpx.post(self.server.target + self.path, content=body, headers=sent, timeout=PATIENCE_S)
        if answer.status_code == 503 and self.server.mend is not None:
            self.server.mend()
            self.server.mend = None
            connection.close()
        if fault != "lose the answer":
            told = ("Content-Type", "Retry-After", "Idempotent-Replayed")
            self._send(
                answer.status_code,
                {name: answer.headers[name] for name in told if name in answer.headers},
                answer.content,
            )

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def paid(bought: Purchase) -> int:
    return Payment.objects.filter(agent_id=bought.agent_id).count()


def test_a_payment_is_paid_under_the_first_key_of_its_order(pay, servers):
    bought = purchase()

    told = bought.pay(pay, servers.urls[0])

    assert told.payment is not None
    assert LogEntry.objects.get(payment_id=told.payment["id"]).idempotency_key == f"{bought.order}-1"


@pytest.mark.parametrize("fault", ["lose the request", "lose the answer", "bad gateway"])
def test_what_is_lost_on_the_way_is_asked_again_with_the_same_key_and_paid_once(pay, servers, fault):
    bought = purchase()

    with Unreliable(servers.urls[0], fault, fault) as between:
        told = bought.pay(pay, between.url)

    assert told.payment is not None
    assert (between.keys, paid(bought)) == ([f"{bought.order}-1"] * 3, 1)


def test_a_server_that_is_away_is_waited_for(pay, restarting):
    bought = purchase()
    restarting.kill("web-1")
    starting = threading.Timer(1, restarting.again, ["web-1"])
    starting.start()

    told = bought.pay(pay, restarting.urls[0])
    starting.join()

    assert told.payment is not None
    assert paid(bought) == 1


@pytest.fixture(scope="module")
def restarting(django_db_setup, django_db_blocker) -> Iterator[Servers]:
    """A server of these tests alone; an agent may be refused once a minute."""
    with django_db_blocker.unblock(), Servers(variables=[{"REFUSALS_PER_MINUTE": "1"}]) as running:
        yield running


def test_a_503_is_asked_again_with_the_same_key_after_its_time(pay, servers):
    bought = purchase()
    switch_signer(is_signing=False, by="test")

    with Unreliable(servers.urls[0], mend=partial(switch_signer, is_signing=True, by="test")) as between:
        told = bought.pay(pay, between.url)

    assert told.payment is not None
    assert (set(between.keys), paid(bought)) == ({f"{bought.order}-1"}, 1)
    assert LogEntry.objects.filter(agent_id=bought.agent_id, result="blocked").exists()


def test_a_429_is_waited_for_or_given_up_with_the_key_kept(pay, restarting):
    bought = purchase(amount="11")
    first = bought.pay(pay, restarting.urls[0])
    again = Purchase(bought.api_key, new_name("order"), bought.body)

    told = again.pay(pay, restarting.urls[0], patience_s=1)

    assert (first.threw, told.threw, told.error) == ("Refused", "Error", None)
    assert not LogEntry.objects.filter(idempotency_key__startswith=again.order).exists()


def test_a_422_is_paid_with_the_next_key_as_soon_as_the_window_allows_it(pay, servers):
    bought = purchase(daily_limit="1")
    agent, passes_at = Agent.objects.get(pk=bought.agent_id), utc_now() + timedelta(seconds=5)
    decide(agent, bought.body["service"], "1", at=passes_at - timedelta(hours=24))
    headers = {"Authorization": f"Bearer {bought.api_key}", "Idempotency-Key": f"{bought.order}-1"}
    refused = httpx.post(f"{servers.urls[0]}/v1/payments/request", json=bought.body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["rule"]) == (422, "under_daily_limit")

    with Unreliable(servers.urls[0]) as between:
        told = bought.pay(pay, between.url)
        again = bought.pay(pay, between.url)  # as after a crash

    assert told.payment is not None
    assert again.payment == told.payment
    assert between.keys == [f"{bought.order}-1", f"{bought.order}-2"] * 2
    assert paid(bought) == 2


@pytest.mark.parametrize(
    ("change", "code", "retry", "waits"),
    [
        ({"amount": "11"}, "budget_exceeded", "new_key", False),
        ({"amount": "6"}, "budget_exceeded", "new_key", True),
        ({"service": "nobody"}, "service_not_approved", "new_key", False),
        ({"amount": 1}, "invalid_request", None, False),
    ],
)
def test_a_refusal_that_does_not_pass_in_time_is_raised_with_its_figures(pay, servers, *, change, code, retry, waits):
    bought = purchase(daily_limit="6")
    first = bought.pay(pay, servers.urls[0], until_allowed=False)
    refused = Purchase(bought.api_key, new_name("order"), {**bought.body, **change})

    with Unreliable(servers.urls[0]) as between:
        told = refused.pay(pay, between.url, patience_s=5)

    assert first.payment is not None
    assert (told.threw, told.payment, len(between.keys)) == ("Refused", None, 1)
    assert told.error is not None
    assert (told.error["code"], told.error["retry"]) == (code, retry)
    assert (told.retry_after_s is not None) is waits


def test_a_paused_agent_is_not_asked_for_again(pay, servers):
    bought = purchase()
    pause_agent(bought.agent_id, by="ann")

    told = bought.pay(pay, servers.urls[0])

    assert (told.threw, told.error and told.error["code"]) == ("Refused", "agent_paused")


def test_the_page_defines_the_same_in_both_languages():
    for language, form in (
        ("python", r"^(?:def|class) (\w+)"),
        ("typescript", r"^export (?:async )?(?:function|class) (\w+)"),
    ):
        names = re.findall(form, code_in(language), re.MULTILINE)
        assert [name.lower().replace("_", "") for name in names] == ["refused", "pay", "paywhenallowed"]
