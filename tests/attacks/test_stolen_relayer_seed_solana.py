"""On Solana, too: what failed is not given back while the same message can be signed and sent once more."""

import base64

import pytest
from django.conf import settings
from solders.message import Message
from solders.signature import Signature
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID

from chains.solana.derivation import relayer_keypair
from foundation.kernel.assets import Asset
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Payment
from policy.models import Agent
from tests.support.closing_payee import UNITS
from tests.support.ed25519 import sign_otherwise
from tests.support.invariants import check_agent
from tests.support.localnets import SOLANA
from tests.support.scenes import state_of, status_of, transaction_of, transactions_of
from tests.support.together import pay_services

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def shared(payee) -> list[Payment]:
    """Three payments of one transaction that can be made if the last one's payee has an account, which it closed."""
    assert payee.ask_for_payment()
    payee.settle_payments()
    SOLANA.observe()
    payee.close()
    asset = Asset(payee.service.asset)
    services = [SOLANA.make_service(asset), SOLANA.make_service(asset), payee.service]
    payments = pay_services(SOLANA, services)
    assert len({transaction_of(one).tx for one in payments}) == 1
    return payments


def received(payments: list[Payment]) -> list[int]:
    return [SOLANA.balance_of(Asset(one.asset), one.recipient) for one in payments]


def sign_and_send_otherwise(payment: Payment) -> str:
    """Send the co-signed message under another signature of the relayer, as whoever has only that key can."""
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(payment).raw))
    relayer, message = relayer_keypair(settings.RELAYER_SEED, 0), bytes(sent.message)
    other = Signature(sign_otherwise(bytes(relayer.secret()), bytes(relayer.pubkey()), message))
    return send(VersionedTransaction.populate(sent.message, [other, sent.signatures[1]]))


def send(forged: VersionedTransaction) -> str:
    encoded = base64.b64encode(bytes(forged)).decode()
    SOLANA.rpc("sendTransaction", encoded, {"encoding": "base64", "skipPreflight": True})
    for _ in range(3):
        SOLANA.mine()
    return str(forged.signatures[0])


def alter(sent: VersionedTransaction, order: list[int]) -> VersionedTransaction:
    """Make the transaction of these of a list's payments; the policy signer's signature is that of the list."""
    message = sent.message
    keys = message.account_keys
    starts = [
        number for number, one in enumerate(message.instructions) if keys[one.program_id_index] == MEMO_PROGRAM_ID
    ]
    steps = [message.instructions[start : start + 2] for start in starts]
    made = Message.new_with_compiled_instructions(
        message.header.num_required_signatures,
        message.header.num_readonly_signed_accounts,
        message.header.num_readonly_unsigned_accounts,
        keys,
        message.recent_blockhash,
        [*message.instructions[: starts[0]], *(step for one in order for step in steps[one])],
    )
    signature = relayer_keypair(settings.RELAYER_SEED, 0).sign_message(bytes(made))
    return VersionedTransaction.populate(made, [signature, sent.signatures[1]])


def test_a_payment_that_failed_is_not_given_back_before_what_was_signed_has_expired(payee, is_untroubled):
    assert payee.ask_for_payment()
    payee.settle_payments()
    SOLANA.observe()
    payee.close()
    assert payee.ask_before_the_watcher_looks()
    payment = payee.payments[-1]
    before = Agent.objects.get(pk=payment.agent_id).balance
    payee.include_payment()
    for _ in range(40):
        SOLANA.mine()
    SOLANA.follow()
    # It has failed in a final block, and its blockhash is still good.
    assert (state_of(payment), status_of(payment)) == (SettlementState.INCLUDED, PaymentStatus.APPROVED)

    payee.open()
    other = sign_and_send_otherwise(payment)
    SOLANA.drain()

    settled = status_of(payment) == PaymentStatus.SETTLED
    assert payee.held == (UNITS if settled else 0)
    assert Agent.objects.get(pk=payment.agent_id).balance == before + (0 if settled else payment.amount)
    assert settled == (SOLANA.find_block(other) is not None)
    assert SOLANA.final_height > (transaction_of(payment).valid_until_height or SOLANA.final_height - 1)
    assert is_untroubled(SOLANA.caip2)


def test_a_list_that_failed_is_not_signed_again_before_it_has_expired_and_each_is_paid_once(
    shared,
    payee,
    is_untroubled,
):
    SOLANA.include(shared[0])
    for _ in range(40):
        SOLANA.mine()
    SOLANA.follow()
    # It has failed in a final block, and its blockhash is still good.
    assert {state_of(one) for one in shared} == {SettlementState.INCLUDED}
    assert received(shared) == [0] * 3

    payee.open()
    other = sign_and_send_otherwise(shared[0])
    SOLANA.drain()

    # A node that remembers the message does not take it again: then each is signed alone, and paid by that.
    is_by_thief = SOLANA.find_block(other) is not None
    assert [status_of(one) for one in shared] == [PaymentStatus.SETTLED] * 3
    assert received(shared) == [UNITS] * 3
    assert [len(transactions_of(one)) for one in shared] == [2] * 3
    assert {transaction_of(one).tx == other for one in shared} == {is_by_thief}
    for one in shared:
        check_agent(one.agent_id)
    assert is_untroubled(SOLANA.caip2)


def test_the_others_of_a_list_that_one_spoilt_are_paid_once_and_the_thief_has_nothing_to_send(
    shared,
    payee,
    is_untroubled,
):
    old = VersionedTransaction.from_bytes(bytes(transaction_of(shared[0]).raw))
    SOLANA.include(shared[0])
    SOLANA.drain()
    assert [status_of(one) for one in shared] == [PaymentStatus.SETTLED, PaymentStatus.SETTLED, PaymentStatus.FAILED]

    payee.open()
    send(old)
    SOLANA.drain()

    assert received(shared) == [UNITS, UNITS, 0]
    for one in shared:
        check_agent(one.agent_id)
    assert is_untroubled(SOLANA.caip2)


@pytest.mark.parametrize("order", [[2, 1, 0], [0], [0, 0]], ids=["another order", "one alone", "one twice"])
def test_the_thief_changes_neither_the_order_of_a_list_nor_what_is_in_it(shared, payee, order):
    payee.open()
    sent = VersionedTransaction.from_bytes(bytes(transaction_of(shared[0]).raw))

    forged = send(alter(sent, order))
    assert (SOLANA.find_block(forged), received(shared)) == (None, [0] * 3)
    SOLANA.drain()

    assert received(shared) == [UNITS] * 3
