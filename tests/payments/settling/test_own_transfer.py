"""A payee finds its own payment among those of one transaction by `escrowId`, as docs/integrate/payees.md shows."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from payments.deciding.operations import decide_together
from payments.environment import payment_environment
from payments.models import Payment
from services.models import WebhookEvent
from tests.documents.pages import blocks_of
from tests.support.evm_escrow import TRANSFER
from tests.support.factories import make_agent, make_service
from tests.support.localnets import EVM
from tests.support.payment_requests import make_request
from tests.support.scenes import transaction_of

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(20)]
HOOK = "https://payee.example/hook"
UNITS = [1_000_000, 1_000_000, 2_500_000]


@pytest.fixture(scope="module")
def find_transfer() -> Any:
    """The function that the page has."""
    (block,) = (one for one in blocks_of("docs/integrate/payees.md") if "def find_transfer(" in one.text)
    namespace: dict[str, Any] = {}
    exec(block.text, namespace)  # noqa: S102 - our own page
    return namespace["find_transfer"]


def pay_together() -> list[Payment]:
    """Have agents pay two payees in one transaction: one of them twice, the same amount."""
    EVM.drain()
    EVM.observe()
    twice, once = (make_service(recipient=f"{EVM.alias}:{EVM.new_address()}", webhook_url=HOOK) for _ in range(2))
    wanted = [(twice, "1.00"), (twice, "1.00"), (once, "2.50")]
    requests = [make_request(make_agent(), service, amount) for service, amount in wanted]
    entries = decide_together(requests, replace(payment_environment(), wake=lambda _: None), wait_s=None)
    payments = []
    for entry in entries:
        assert isinstance(entry, LogEntry), entry
        payments.append(Payment.objects.get(pk=entry.payment_id))
    EVM.drain()
    return payments


def told_of(payment: Payment) -> dict[str, Any]:
    """Read the data of the webhook that tells a payee of its settled payment."""
    events = WebhookEvent.objects.filter(service=payment.service_id, type="payment.settled")
    told = [json.loads(event.payload)["data"] for event in events]
    (data,) = (one for one in told if one["paymentId"] == payment.pk)
    return dict(data)


def test_a_payee_finds_its_transfer_of_a_shared_transaction_by_the_webhooks_escrow_id(find_transfer):
    payments = pay_together()
    escrow, node = settings.CHAINS[EVM.caip2].escrow, settings.CHAINS[EVM.caip2].rpc_urls[0]
    told = [told_of(one) for one in payments]

    assert len({data["tx"] for data in told}) == 1
    assert len({data["escrowId"] for data in told}) == 3
    moved = [log for log in EVM.rpc("eth_getTransactionReceipt", told[0]["tx"])["logs"] if log["topics"][0] == TRANSFER]
    assert len(moved) == 3

    found = [find_transfer(data, escrow, node) for data in told]

    token = EVM.token(Asset.USDC)
    assert found == [(token, one.recipient.lower(), units) for one, units in zip(payments, UNITS, strict=True)]


def test_what_is_not_of_the_escrow_or_of_the_transaction_is_not_found(find_transfer):
    payments = pay_together()
    escrow, node = settings.CHAINS[EVM.caip2].escrow, settings.CHAINS[EVM.caip2].rpc_urls[0]
    data = told_of(payments[0])
    assert data["tx"] == transaction_of(payments[0]).tx

    for other, by in [
        ({**data, "escrowId": "0x" + "0" * 64}, escrow),
        ({**data, "tx": "0x" + "0" * 64}, escrow),
        (data, EVM.token(Asset.USDC)),
    ]:
        with pytest.raises(LookupError):
            find_transfer(other, by, node)
