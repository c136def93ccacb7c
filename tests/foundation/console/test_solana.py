"""What the pages of payments show of a chain without nonces, whose ids are base58."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import base58
import pytest

from chains.port import SignedTransaction
from foundation.kernel.times import utc_now
from payments.models import ChainState, Deposit, PayeeState, Payment, Relayer
from payments.reconciling.escrow_history import search_history
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.next_states import HEIGHT_MARGIN
from tests.support.deposits import make_searched_chain, sighting
from tests.support.factories import make_agent
from tests.support.fake_chain import VALIDITY_BLOCKS, FakeChain
from tests.support.payment_requests import make_service_on, pay_on
from tests.support.scenes import transactions_of
from tests.support.scripted_chain import LONG_AGO

RELAYER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
PAYEE = "4uQeVj5tqViQh7yWWGStvkEG1Zmhx6uasJtWCJziofM"
EXPIRES_AT = LONG_AGO.height + VALIDITY_BLOCKS


class Devnet(FakeChain):
    """A fake chain whose ids look as Solana's do."""

    def prepare(self, *args: Any, **options: Any) -> SignedTransaction:
        signed = super().prepare(*args, **options)
        return replace(signed, tx=signature_of(signed.raw))


def signature_of(raw: bytes) -> str:
    return base58.b58encode(hashlib.sha512(raw).digest()).decode()


@pytest.fixture
def devnet(db: None) -> Devnet:
    """Solana's devnet, as far as the console can tell."""
    chain = Devnet("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1", has_nonces=False)
    Relayer.objects.create(chain=chain.name, number=0, address=RELAYER, next_nonce=None)
    ChainState.objects.create(chain=chain.name, state={}, observed_at=utc_now())
    return chain


@pytest.fixture
def payment(devnet: Devnet) -> Payment:
    return pay_on(devnet, make_agent(), make_service_on(devnet))


def words(response: Any) -> str:
    """Read a page as a person does: its text, from the title on."""
    main = response.content.decode().partition("<h1>")[2]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def test_a_transaction_is_linked_by_its_signature_and_expires_at_a_height(auditor, payment):
    (settlement,) = transactions_of(payment)

    page = auditor.get("payments_settlement_change", settlement.tx)

    link = f"https://explorer.solana.com/tx/{settlement.tx}?cluster=devnet"
    assert f'<a href="{link}" rel="noreferrer">' in page.content.decode()
    assert f"Valid until height {EXPIRES_AT}" in words(page)
    assert "Nonce —" in words(page)


def test_a_payment_that_was_signed_again_shows_both_transactions_and_why(auditor, devnet, payment):
    broadcast(devnet.name, devnet)
    devnet.finalise(EXPIRES_AT + HEIGHT_MARGIN)
    search_history(devnet.name, devnet)
    confirm(devnet.name, devnet)
    old, new = transactions_of(payment)

    shown = words(auditor.get("payments_payment_change", payment.id))

    oldest, found, newest = shown.partition(f"Valid until height {EXPIRES_AT} ")
    assert found
    assert re.search(
        rf"{old.tx} .* signed, .* expired without being included Not included before its deadline\. ", oldest
    )
    newest = newest.partition("Webhooks")[0]
    until = EXPIRES_AT + HEIGHT_MARGIN + VALIDITY_BLOCKS
    assert re.search(rf"{new.tx} .* signed, not sent yet — Valid until height {until}\b", newest)
    for tx in (old.tx, new.tx):
        assert payment.id in auditor.get("payments_payment_changelist", q=tx).content.decode()


def test_a_relayer_without_nonces_shows_none(auditor, devnet):
    relayer = Relayer.objects.get(address=RELAYER)

    assert f"{RELAYER} solana-devnet 0 — — " in words(auditor.get("payments_relayer_changelist"))
    assert "Next nonce — Mined nonce —" in words(auditor.get("payments_relayer_change", str(relayer.pk)))


def test_a_relayer_with_nonces_shows_them(auditor, db):
    relayer = Relayer.objects.create(chain="eip155:8453", number=7, address="0x1", next_nonce=12, mined_nonce=11)

    page = words(auditor.get("payments_relayer_change", str(relayer.pk)))

    assert "Next nonce 12 Mined nonce 11" in page


def test_a_deposit_is_found_by_a_signature_which_has_capital_letters(auditor, db):
    tx = signature_of(b"a deposit")
    chain = make_searched_chain(sighting("nobody", tx=tx), sighting("nobody"))
    search_history(chain.name, chain)
    other = Deposit.objects.filter(chain=chain.name).exclude(tx=tx).get()

    page = auditor.get("payments_deposit_changelist", q=tx).content.decode()

    assert f"<code>{tx}</code>" in page
    assert other.tx not in page


def test_what_was_seen_of_a_payee_can_be_looked_up(auditor, devnet):
    row = PayeeState.objects.create(chain=devnet.name, address=PAYEE, state={"lamports": 890880}, observed_at=utc_now())

    found = words(auditor.get("payments_payeestate_changelist", q=PAYEE))
    page = words(auditor.get("payments_payeestate_change", str(row.pk)))

    assert f"{PAYEE} solana-devnet" in found
    assert "&quot;lamports&quot;: 890880" in page
