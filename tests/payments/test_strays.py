"""Strays: a payment has transactions that we do not know. It is paid once all the same."""

import base64
import time
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.db.models import F
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from payments.chains.base import Sighting, StraySighting
from payments.chains.solana.accounts import relayer_keypair
from payments.expiry import BREAK, LAST_BLOCKS, MARGIN, can_end
from payments.history import search_history
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, DepositCursor, Payment, Settlement
from payments.renewal import WORTH_RENEWING
from payments.settlement import confirm
from payments.verdicts import Place
from tests.chains import PATIENCE_S
from tests.ed25519 import sign_otherwise
from tests.factories import new_name
from tests.invariants import check_agent
from tests.ledger.test_evidence import tamper
from tests.localnets import SOLANA, Localnet
from tests.payments.test_settlement import has, let_expire, on_solana
from tests.scenes import Scene, state_of, states_of, status_of, transaction_of, transactions_of

S = SettlementState


@pytest.fixture
def has_nonces() -> bool:
    """An escrow on a chain with nonces counts payments itself."""
    return False


def stray(scene: Scene, payment: Payment, **changes: Any) -> StraySighting:
    """Let a transaction that nobody here knows have paid for a payment, in the newest final block."""
    scene.chain.finalise(scene.chain.finality.block_number + 1)
    found = StraySighting(
        tx=new_name("tx"),
        block_number=scene.chain.finality.block_number,
        asset=Asset(payment.asset),
        amount=payment.amount,
        named_payment=payment.pk,
    )
    scene.chain.strays.append(replace(found, **changes))
    return scene.chain.strays[-1]


def search(scene: Scene) -> None:
    search_history(scene.chain.name, scene.chain)


def cursor_at(scene: Scene, block_number: int) -> None:
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=block_number)


def stopped_reason(scene: Scene) -> str:
    return ChainState.objects.get(pk=scene.chain.name).stopped_reason


# --- Found ------------------------------------------------------------------------------------------------------------
def test_what_names_a_payment_is_one_of_its_transactions_and_ends_it(scene, caplog):
    payment = scene.pay_and_send()
    found = stray(scene, payment)

    search(scene)
    row = Settlement.objects.get(pk=found.tx)
    assert (row.payment_id, row.state, bytes(row.raw), row.nonce) == (payment.pk, S.REPLACED, b"", None)
    scene.chain.include(row)
    assert scene.confirm() == 1

    assert states_of(payment) == [S.REPLACED, S.FINAL]
    assert status_of(payment) == PaymentStatus.SETTLED
    assert f"{payment.pk} is paid by {found.tx}, which was not known" in caplog.text
    assert scene.events()[-1] == "payment.settled"
    check_agent(scene.agent.id)


def test_an_expired_payment_that_a_stray_has_paid_is_neither_signed_again_nor_given_back(scene):
    payments = [scene.pay_and_send(), scene.pay_and_send()]
    Payment.objects.filter(pk=payments[1].pk).update(created_at=payments[1].created_at - WORTH_RENEWING)
    strays = [stray(scene, payment) for payment in payments]
    for payment in payments:
        scene.pass_deadline(payment)

    search(scene)
    for one in strays:
        scene.chain.include(Settlement.objects.get(pk=one.tx))
    assert scene.confirm() == 2

    assert [states_of(payment) for payment in payments] == [[S.REPLACED, S.FINAL]] * 2
    assert {status_of(payment) for payment in payments} == {PaymentStatus.SETTLED}
    assert not scene.returns()


def test_one_that_is_not_seen_where_the_search_found_it_is_waited_for(scene):
    payment = scene.pay_and_send()
    stray(scene, payment)
    scene.pass_deadline(payment)

    scene.confirm()
    scene.confirm()

    # What does not see it proves nothing: it is neither signed again nor given back.
    assert states_of(payment) == [S.BROADCAST, S.REPLACED]
    assert status_of(payment) == PaymentStatus.APPROVED


def test_a_search_that_begins_anew_finds_nothing_new(scene):
    payment = scene.pay_and_send()
    found = stray(scene, payment)
    search(scene)
    scene.chain.include(Settlement.objects.get(pk=found.tx))
    scene.confirm()

    cursor_at(scene, 0)
    search(scene)

    assert states_of(payment) == [S.REPLACED, S.FINAL]
    assert stopped_reason(scene) == ""


@pytest.mark.parametrize("changes", [{"amount": Decimal("0.99")}, {"asset": Asset.EURC}], ids=["amount", "asset"])
def test_one_that_is_not_what_it_says_stops_signing(scene, changes):
    payment = scene.pay_and_send()
    found = stray(scene, payment, **changes)

    search(scene)

    assert stopped_reason(scene) == f"{found.tx} was paid for {payment.pk} and should not have been."
    assert states_of(payment) == [S.BROADCAST]


@pytest.mark.parametrize("is_settled", [True, False], ids=["settled", "given back"])
def test_a_payment_that_is_paid_after_its_end_stops_signing(scene, is_settled):
    payment = scene.pay_and_send()
    if is_settled:
        scene.chain.include(transaction_of(payment))
    else:
        Payment.objects.filter(pk=payment.pk).update(created_at=payment.created_at - WORTH_RENEWING)
        scene.pass_deadline(payment)
    assert scene.confirm() == 1
    status = status_of(payment)

    stray(scene, payment)
    search(scene)

    assert payment.pk in stopped_reason(scene)
    assert (status_of(payment), len(transactions_of(payment))) == (status, 1)


def test_a_payment_that_lands_itself_although_a_stray_has_paid_it_stops_signing(scene):
    payment = scene.pay_and_send()
    found = stray(scene, payment)
    search(scene)
    scene.chain.include(transactions_of(payment)[0])

    assert scene.confirm() == 1

    assert (states_of(payment), status_of(payment)) == ([S.FINAL, S.REPLACED], PaymentStatus.SETTLED)
    assert stopped_reason(scene) == f"{found.tx} was paid for {payment.pk} and should not have been."


@pytest.mark.parametrize("name", ["", "pay_00000000000000000000000000", "anything"])
def test_what_names_no_payment_of_ours_is_said_and_left_to_reconciliation(scene, caplog, name):
    found = stray(scene, scene.pay_and_send(), named_payment=name)

    search(scene)

    assert f"1 transactions took money out of the escrow and name no payment of ours, such as {found.tx}" in caplog.text
    assert (stopped_reason(scene), Settlement.objects.filter(pk=found.tx).count()) == ("", 0)


# --- Searched first ---------------------------------------------------------------------------------------------------
def test_nothing_that_has_expired_ends_before_the_search_has_come_past_it(scene):
    payment = scene.pay_and_send()
    last = (transaction_of(payment).valid_until_height or 0) + MARGIN
    scene.chain.finalise(last)

    assert confirm(scene.chain.name, scene.chain) == 0  # nobody has searched
    cursor_at(scene, last - 1)
    assert confirm(scene.chain.name, scene.chain) == 0
    assert states_of(payment) == [S.BROADCAST]

    cursor_at(scene, last)
    assert confirm(scene.chain.name, scene.chain) == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_a_search_that_stays_behind_ends_nothing_however_long_ago_it_expired(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    search(scene)
    scene.chain.finalise(scene.chain.finality.block_number + 1000)

    assert confirm(scene.chain.name, scene.chain) == 0

    search(scene)
    assert confirm(scene.chain.name, scene.chain) == 1


def test_the_search_of_another_escrow_is_none(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    search(scene)
    DepositCursor.objects.filter(chain=scene.chain.name).update(escrow="another")

    assert confirm(scene.chain.name, scene.chain) == 0
    assert state_of(payment) == S.BROADCAST


def test_what_is_found_while_an_end_is_being_concluded_is_not_overlooked(scene, monkeypatch):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    cursor_at(scene, 0)
    found = stray(scene, payment)

    def search_meanwhile(*_: Any) -> Sighting:
        search(scene)
        return Sighting({}, {})

    monkeypatch.setattr(scene.chain, "find_inclusions", search_meanwhile)

    assert confirm(scene.chain.name, scene.chain) == 0
    assert states_of(payment) == [S.BROADCAST, S.REPLACED]
    assert Settlement.objects.filter(pk=found.tx).exists()


@pytest.mark.parametrize("has_nonces", [True])
def test_where_the_escrow_counts_payments_nothing_is_waited_for(scene):
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)

    assert can_end(Place(transaction_of(payment), []), scene.chain.finality, None, scene.chain)
    assert scene.confirm() == 1


def test_after_a_break_in_the_search_what_may_still_be_under_way_is_waited_for(scene):
    search(scene)
    payment = scene.pay_and_send()
    cursors = DepositCursor.objects.filter(chain=scene.chain.name)
    cursors.update(moved_at=F("moved_at") - BREAK)
    scene.pass_deadline(payment)
    began = scene.chain.finality.height

    assert scene.confirm() == 0
    assert cursors.get().strays_until_height == began + LAST_BLOCKS
    scene.chain.finalise(began + LAST_BLOCKS - 1)
    assert scene.confirm() == 0
    scene.chain.finalise(began + LAST_BLOCKS)

    assert scene.confirm() == 1
    assert states_of(payment) == [S.EXPIRED, S.SIGNED]


def test_numbers_without_a_block_are_not_taken_for_blocks(scene):
    payment = scene.pay_and_send()
    last = (transaction_of(payment).valid_until_height or 0) + MARGIN
    scene.chain.finalise(last + 1000)
    scene.chain.finality = replace(scene.chain.finality, height=last + 1, skipped=999)
    cursor_at(scene, last + 998)

    assert confirm(scene.chain.name, scene.chain) == 0

    cursor_at(scene, last + 999)
    assert confirm(scene.chain.name, scene.chain) == 1


# --- On the chain -----------------------------------------------------------------------------------------------------
def forge(payment: Payment) -> str:
    """Land a payment as whoever has the relayer's key, and no other, can: by another signature, under another id."""
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(payment).raw))
    relayer, message = relayer_keypair(settings.RELAYER_SEED, 0), bytes(sent.message)
    other = Signature(sign_otherwise(bytes(relayer.secret()), bytes(relayer.pubkey()), message))
    assert other.verify(relayer.pubkey(), message)
    forged = VersionedTransaction.populate(sent.message, [other, sent.signatures[1]])
    SOLANA.rpc(
        "sendTransaction", base64.b64encode(bytes(forged)).decode(), {"encoding": "base64", "skipPreflight": True}
    )
    deadline = time.monotonic() + PATIENCE_S
    while SOLANA.find_block(str(other)) is None:
        assert time.monotonic() < deadline, "no block takes it"
        SOLANA.mine()
    return str(other)


def has_paid(localnet: Localnet, payment: Payment) -> bool:
    """Tell whether a payment is settled and its payee has its money once, however long one waits."""
    for _ in range(3):
        localnet.drain()
        localnet.mine()
        localnet.observe()
    is_settled = status_of(payment) == PaymentStatus.SETTLED
    return is_settled and has(localnet, payment) == int(payment.amount.scaleb(Asset(payment.asset).decimals))


@on_solana
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
def test_a_stolen_relayer_key_alone_does_not_let_a_payment_be_paid_twice(real, localnet, asset):
    payment = real("1.25", asset=asset)

    other = forge(payment)
    localnet.send()
    let_expire(payment)

    assert has_paid(localnet, payment)
    ours, theirs = transactions_of(payment)
    assert (ours.state, theirs.state, theirs.tx) == (S.REPLACED, S.FINAL, other)


@on_solana
def test_a_restored_database_does_not_pay_again_what_was_signed_after_its_backup(real, localnet):
    payment = real("0.75")
    localnet.send()
    searched = DepositCursor.objects.get(chain=localnet.caip2).block_number
    let_expire(payment)
    assert localnet.follow() == 1
    old, new = transactions_of(payment)
    localnet.include(payment)

    # As it was before it was signed again.
    with transaction.atomic():
        tamper("DELETE FROM payments_transition WHERE settlement_id IN (%s, %s)", old.pk, new.pk)
        tamper("DELETE FROM payments_settlement WHERE tx = %s", new.pk)
    Settlement.objects.filter(pk=old.pk).update(state=S.BROADCAST)
    an_hour_ago = utc_now() - timedelta(hours=1)
    DepositCursor.objects.filter(chain=localnet.caip2).update(block_number=searched, moved_at=an_hour_ago)

    assert has_paid(localnet, payment)
    assert [(one.tx, one.state) for one in transactions_of(payment)] == [(old.tx, S.REPLACED), (new.tx, S.FINAL)]
