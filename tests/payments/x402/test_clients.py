"""The clients pay 402s by themselves: once for each purchase, those who are named, and no more than is allowed."""

import base64
import json
import signal
import subprocess
import sys

import anyio
import httpx
import pytest
from allowance_client import Allowance, AsyncAllowance, AsyncPayingTransport, PayingTransport, errors

from ledger.models import LogEntry
from payments.models import Payment
from tests.chains.adapter.anvil_node import has_program
from tests.payments.x402.stage import NETWORK, open_shop
from tests.support.javascript import needs_node
from workshop.localnet.folder import ROOT

pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000
EXAMPLE = ROOT / "clients/python/examples/fetch.py"
# The example, but its process is killed with -9 once it has paid, before it asks the payee again.
DIES = """
import os, runpy, signal, sys, httpx
send = httpx.HTTPTransport.handle_request
def handle_request(self, request):
    if "PAYMENT-SIGNATURE" in request.headers:
        os.kill(os.getpid(), signal.SIGKILL)
    return send(self, request)
httpx.HTTPTransport.handle_request = handle_request
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def shop(chain, payee):
    with open_shop(chain, payee.address, amount=PRICE) as opened:
        yield opened


@pytest.fixture
def fetch_python(api_url, key, shop, payee, tmp_path):
    def fetch(*, dies=False):
        command = [sys.executable, *(["-c", DIES] if dies else []), str(EXAMPLE)]
        command += [payee.id, f"{shop.url}/report", str(PRICE), str(tmp_path / "purchase.key")]
        told = {"ALLOWANCE_URL": api_url, "ALLOWANCE_API_KEY": key, "PYTHONPATH": str(ROOT / "clients/python")}
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return fetch


@pytest.fixture
def fetch_typescript(*, api_url, key, agent, shop, payee, compiled_client):
    def fetch(*, dies=False):
        said = {
            "client": str(compiled_client), "api": api_url, "key": key, "agent": agent.id, "dies": dies,
            "services": {shop.url: payee.id}, "url": f"{shop.url}/report", "mostUnits": PRICE, "purchase": "report-42",
        }  # fmt: skip
        command = ["node", str(ROOT / "tests/payments/x402/fetch.mjs")]
        done = subprocess.run(command, input=json.dumps(said), capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    return fetch


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_client_that_is_killed_between_paying_and_asking_again_pays_once(language, request, chain, agent, payee):
    fetch = request.getfixturevalue(f"fetch_{language}")
    chain.look()
    assert fetch(dies=True) == (-signal.SIGKILL, "")
    (payment,) = Payment.objects.filter(agent=agent)
    assert chain.balance_of(payee.address) == 0

    status, said = fetch()

    assert status == 0, said
    assert "what was paid for" in said
    assert payment.id in said
    assert Payment.objects.filter(agent=agent).count() == 1
    assert chain.balance_of(payee.address) == PRICE


def test_a_page_is_fetched_awaited_as_well(*, chain, api_url, key, shop, agent, payee):
    chain.look()

    async def fetch():
        async with AsyncAllowance(api_url, key) as allowance:
            transport = AsyncPayingTransport(allowance, {shop.url: payee.id}, most_units=PRICE)
            async with httpx.AsyncClient(transport=transport, timeout=60) as http:
                return await http.get(f"{shop.url}/report")

    page = anyio.run(fetch)

    assert page.json() == {"report": "what was paid for"}
    assert page.extensions["allowance_payment"].id == Payment.objects.get(agent=agent).id


# --- Payees that ask for more than they may have
@pytest.fixture
def wanted(chain, payee):
    """What a 402 on this chain may ask for."""
    return {
        "scheme": "exact", "network": NETWORK, "asset": chain.token, "amount": str(PRICE), "payTo": payee.address,
        "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"},
    }  # fmt: skip


class Payee(httpx.BaseTransport):
    """Answers 402 with whatever it likes, until it is paid; remembers what it was sent."""

    def __init__(self, *accepts, header=None, status=200, **changes):
        demand = json.dumps({"x402Version": 2, "accepts": accepts, **changes}).encode()
        self._header = base64.b64encode(demand).decode() if header is None else header
        self._status = status
        self.paid = []
        self.bodies = []

    def handle_request(self, request):
        self.bodies.append(request.read())
        if "PAYMENT-SIGNATURE" in request.headers:
            self.paid.append(json.loads(base64.b64decode(request.headers["PAYMENT-SIGNATURE"])))
            return httpx.Response(self._status, text="Thank you")
        return httpx.Response(402, headers={"PAYMENT-REQUIRED": self._header}, text="Pay")


@pytest.fixture
def visit(chain, api_url, key, payee):
    """Return a function that asks a payee for something, by a client that may pay it 1.25 a request."""
    chain.look()

    def visit(shop, *, url="https://shop.example/report?secret=1", headers=None, content=None, **extensions):
        with Allowance(api_url, key, patience_s=0) as allowance:
            transport = PayingTransport(allowance, {"https://shop.example": payee.id}, most_units=PRICE, transport=shop)
            with httpx.Client(transport=transport, timeout=60) as http:
                return http.post(url, headers=headers, content=content, extensions=extensions)

    return visit


def test_what_the_payee_answers_to_the_payment_is_the_answer_even_another_402(visit, wanted, agent):
    shop = Payee(wanted, status=402)

    page = visit(shop, content=iter([b"two ", b"pieces"]))

    (payment,) = Payment.objects.filter(agent=agent)
    assert (page.status_code, page.text, page.extensions["allowance_payment"].id) == (402, "Thank you", payment.id)
    assert [sent["accepted"] for sent in shop.paid] == [wanted]
    assert shop.bodies == [b"two pieces"] * 2
    assert LogEntry.objects.get(payment_id=payment.id).reason == "POST https://shop.example/report"


@pytest.mark.parametrize(
    "change",
    [
        {"amount": str(PRICE + 1)}, {"amount": "-1"}, {"amount": "1e3"}, {"amount": 1}, {"amount": "٣"},
        {"scheme": "upto"}, {"network": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}, {"extra": None},
        {"extra": {"name": "USD Coin", "version": "2", "assetTransferMethod": "permit2"}},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_above_the_limit_or_of_another_kind_is_not_even_asked_for(visit, wanted, agent, change):
    shop = Payee({**wanted, **change})

    assert (visit(shop).status_code, shop.paid) == (402, [])
    assert not Payment.objects.filter(agent=agent).exists()


@pytest.mark.parametrize("header", ["", "!", "bnVsbA==", "W10=", base64.b64encode(b"[" * 9000).decode(), "A" * 70_000])
def test_a_402_that_cannot_be_read_stays_one(visit, agent, header):
    assert visit(Payee(header=header)).status_code == 402
    assert not Payment.objects.filter(agent=agent).exists()


@pytest.mark.parametrize(
    "url",
    ["https://elsewhere.example/", "http://shop.example/", "https://shop.example:444/", "https://a.shop.example/"],
)
def test_nobody_else_is_paid(visit, wanted, agent, url):
    assert visit(Payee(wanted), url=url).status_code == 402
    assert not Payment.objects.filter(agent=agent).exists()


def test_an_address_that_is_not_the_approved_one_is_refused(visit, wanted, agent):
    with pytest.raises(errors.ServiceNotApproved):
        visit(Payee({**wanted, "payTo": "0x" + "ab" * 20}))
    assert not Payment.objects.filter(agent=agent).exists()


def test_the_first_way_of_paying_that_is_served_is_taken(visit, wanted, agent):
    shop = Payee(
        {**wanted, "network": "eip155:1"}, {**wanted, "asset": "0x" + "ab" * 20}, wanted, {**wanted, "amount": "1"}
    )

    assert visit(shop).text == "Thank you"
    assert [sent["accepted"] for sent in shop.paid] == [wanted]
    assert Payment.objects.filter(agent=agent).count() == 1


def test_one_key_is_one_purchase_whatever_the_payee_asks_for_the_second_time(visit, wanted, agent):
    first = visit(Payee(wanted), idempotency_key="report-42")
    again = visit(Payee(wanted), idempotency_key="report-42")
    with pytest.raises(errors.IdempotencyConflict):
        visit(Payee({**wanted, "amount": "1"}), idempotency_key="report-42")

    assert again.extensions["allowance_payment"].header == first.extensions["allowance_payment"].header
    assert again.extensions["allowance_payment"].is_replay
    assert Payment.objects.filter(agent=agent).count() == 1
