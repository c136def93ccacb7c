"""A model pays a 402 by its tool: once, however often it calls, and it gets again what it has lost."""

import base64
import json

import pytest

from payments.models import Payment
from tests.chains.adapter.anvil_node import has_program
from tests.clients.mcp.talking import over_stdio, tell
from tests.payments.x402.stage import open_shop
from tests.support.javascript import needs_node

pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000


@pytest.fixture
def shop(chain, payee):
    with open_shop(chain, payee.address, amount=PRICE) as opened:
        yield opened


def test_a_page_is_paid_once_though_the_model_asks_again_before_and_after_it_is_delivered(
    *, chain, shop, api_url, key, agent, payee
):
    chain.look()
    header = shop.visit().headers["PAYMENT-REQUIRED"]
    asked = {"service": payee.id, "payment_required": header, "reason": "A report"}
    pages = []

    async def story(model):
        first = await model.call("pay_402", **asked)
        again = await model.call("pay_402", **asked)
        reworded = await model.call("pay_402", **asked | {"reason": "Please"})
        for one in (first, again):
            payload = json.loads(base64.b64decode(one.content["payment_signature"]))
            pages.append(shop.visit(payload).status_code)
        other_tool = await model.pay(payee.id, "1.25")
        return first, again, reworded, other_tool

    first, again, reworded, other_tool = tell(over_stdio(api_url, key), story)

    assert (first.status, again.status) == ("paid", "already_paid")
    assert again.content["payment_signature"] == first.content["payment_signature"]
    assert "PAYMENT-SIGNATURE" in first.content["what_to_do"]
    assert (reworded.status, "payment_signature" in reworded.content) == ("already_paid", False)
    assert other_tool.status == "already_paid"
    assert pages == [200, 402]
    assert Payment.objects.filter(agent=agent).count() == 1
    assert chain.balance_of(payee.address) == PRICE


def test_what_was_paid_otherwise_is_not_paid_again_as_a_402(*, chain, shop, api_url, key, agent, payee):
    chain.look()
    asked = {"service": payee.id, "payment_required": shop.visit().headers["PAYMENT-REQUIRED"], "reason": "A report"}

    async def story(model):
        return await model.pay(payee.id, "1.25"), await model.call("pay_402", **asked)

    _, said = tell(over_stdio(api_url, key), story)

    assert (said.status, "payment_signature" in said.content) == ("already_paid", False)
    assert Payment.objects.filter(agent=agent).count() == 1


@pytest.mark.parametrize("header", ["", "nonsense", "e30=", "W10="])
def test_what_is_no_402_is_explained_and_nothing_is_paid(*, api_url, key, agent, payee, header):
    asked = {"service": payee.id, "payment_required": header, "reason": "A report"}

    said = tell(over_stdio(api_url, key), lambda model: model.call("pay_402", **asked))

    assert (said.status, said.content["code"]) == ("failed", "invalid_arguments")
    assert "PAYMENT-REQUIRED" in said.content["what_to_do"]
    assert not Payment.objects.filter(agent=agent).exists()
