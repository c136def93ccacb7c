"""What the answers of all nodes prove: each combination of a status and of two nonces, one by one."""

import pytest

from chains.evm.proving import _authorization_fate, _nonce_fate, _payment_fate
from chains.port import NonceFate, PaymentFate

# A nonce; the account's first unused nonce in the final block and in the newest one, None: nodes do not agree.
NONCES = [
    (None, 8, 8, NonceFate.UNKNOWN),
    (7, 8, 8, NonceFate.USED),
    (7, 8, None, NonceFate.USED),
    (7, 8, 7, NonceFate.USED),
    (7, 7, 7, NonceFate.UNUSED),
    (7, 7, 8, NonceFate.UNUSED),
    (7, 7, None, NonceFate.UNUSED),
    (7, None, 8, NonceFate.MINED),
    (7, None, 7, NonceFate.UNUSED),
    (7, None, None, NonceFate.UNKNOWN),
]


@pytest.mark.parametrize(("nonce", "final", "newest", "fate"), NONCES)
def test_a_nonce_is_used_only_by_the_word_of_the_final_block(nonce, final, newest, fate):
    assert _nonce_fate(nonce, final, newest) is fate


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (0, PaymentFate.UNPAID),
        (1, PaymentFate.PAID),
        (2, PaymentFate.UNKNOWN),
        (3, PaymentFate.UNKNOWN),
        (None, PaymentFate.UNKNOWN),
    ],
)
def test_only_the_two_plain_statuses_prove_anything_of_a_payment(status, fate):
    assert _payment_fate(status) is fate


@pytest.mark.parametrize(
    ("used", "by_escrow", "fate"),
    [
        (0, PaymentFate.UNPAID, PaymentFate.UNPAID),
        (0, PaymentFate.PAID, PaymentFate.UNKNOWN),
        (0, PaymentFate.UNKNOWN, PaymentFate.UNKNOWN),
        (1, PaymentFate.UNPAID, PaymentFate.PAID),
        (2, PaymentFate.UNPAID, PaymentFate.UNKNOWN),
        (None, PaymentFate.UNPAID, PaymentFate.UNKNOWN),
    ],
)
def test_an_authorization_is_unpaid_only_if_token_and_escrow_both_say_so(used, by_escrow, fate):
    assert _authorization_fate(used, by_escrow) is fate
