"""What the Solana adapter concludes of payees from a transaction that several payments share."""

import pytest
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from chains.port import IncludedPayment
from chains.solana.instructions import Token, pay_token
from chains.solana.payee_accounts import read_id
from foundation.kernel.assets import Asset
from tests.chains.solana.test_payee_accounts import CLOSED, NEVER, Payee, paid_into
from tests.support.fake_solana_nodes import FINAL, MINTS, PROGRAMS, RELAYER, SIGNERS, status, tell


@pytest.fixture
def payee() -> Payee:
    return Payee()


FAILED = status(FINAL, {"InstructionError": [5, {"Custom": 17}]}, "confirmed")


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        (FAILED, NEVER),
        ({**FAILED, "confirmationStatus": "processed"}, (False, True)),
        (status(FINAL, None, "confirmed"), (False, True)),
        (None, (False, True)),
    ],
    ids=["failed", "not by most", "succeeded", "unknown"],
)
def test_a_transaction_that_failed_has_made_no_account_that_could_be_closed(node, truth, payee, found, seen):
    """As it does if one of its other payments spoilt it."""
    paid = paid_into(payee, is_final=False)
    truth.statuses[read_id(paid.raw)] = found

    assert payee.look(tell([node], truth), paid) == seen


@pytest.mark.parametrize("liar", [0, 1])
def test_one_node_alone_does_not_say_that_a_transaction_failed(nodes, truth, payee, liar):
    paid = paid_into(payee, is_final=False)
    truth.statuses[read_id(paid.raw)] = status(FINAL, None, "confirmed")
    lies = {"getSignatureStatuses": truth.context([FAILED])}

    assert payee.look(tell(nodes, truth, liar, **lies), paid) == (False, True)


def test_each_account_that_a_transaction_of_several_payments_made_counts(node, truth):
    payees = [Payee(), Payee(Asset.PYUSD), Payee()]
    steps = []
    for one in payees:
        token = Token(MINTS[one.asset], PROGRAMS[one.asset], 6)
        steps += pay_token(SIGNERS, token, Pubkey.from_string(one.address), 1, one.address[:30], makes_account=True)
    raw = bytes(Transaction.new_unsigned(Message(steps, RELAYER)))

    assert [one.look(tell([node], truth), IncludedPayment(raw, is_final=True)) for one in payees] == [CLOSED] * 3
