"""What the answers of all nodes prove: each combination of a status and of two nonces, one by one."""

import pytest

from chains.evm.proving import _authorization_proof, _nonce_proof, _payment_proof
from chains.port import NonceProof, PaymentProof

# A nonce; the account's first unused nonce in the final block and in the newest one, None: nodes do not agree.
NONCES = [
    (None, 8, 8, NonceProof.UNKNOWN),
    (7, 8, 8, NonceProof.USED),
    (7, 8, None, NonceProof.USED),
    (7, 8, 7, NonceProof.USED),
    (7, 7, 7, NonceProof.UNUSED),
    (7, 7, 8, NonceProof.UNUSED),
    (7, 7, None, NonceProof.UNUSED),
    (7, None, 8, NonceProof.MINED),
    (7, None, 7, NonceProof.UNUSED),
    (7, None, None, NonceProof.UNKNOWN),
]


@pytest.mark.parametrize(("nonce", "final", "newest", "proof"), NONCES)
def test_a_nonce_is_used_only_by_the_word_of_the_final_block(nonce, final, newest, proof):
    assert _nonce_proof(nonce, final, newest) is proof


@pytest.mark.parametrize(
    ("status", "proof"),
    [
        (0, PaymentProof.UNPAID),
        (1, PaymentProof.PAID),
        (2, PaymentProof.UNKNOWN),
        (3, PaymentProof.UNKNOWN),
        (None, PaymentProof.UNKNOWN),
    ],
)
def test_only_the_two_plain_statuses_prove_anything_of_a_payment(status, proof):
    assert _payment_proof(status) is proof


@pytest.mark.parametrize(
    ("used", "by_escrow", "proof"),
    [
        (0, PaymentProof.UNPAID, PaymentProof.UNPAID),
        (0, PaymentProof.PAID, PaymentProof.UNKNOWN),
        (0, PaymentProof.UNKNOWN, PaymentProof.UNKNOWN),
        (1, PaymentProof.UNPAID, PaymentProof.PAID),
        (2, PaymentProof.UNPAID, PaymentProof.UNKNOWN),
        (None, PaymentProof.UNPAID, PaymentProof.UNKNOWN),
    ],
)
def test_an_authorization_is_unpaid_only_if_token_and_escrow_both_say_so(used, by_escrow, proof):
    assert _authorization_proof(used, by_escrow) is proof
