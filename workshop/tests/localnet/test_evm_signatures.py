"""The local EVM checks signatures with libsecp256k1, and comes to what eth_keys comes to in Python."""

import os

import pytest
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.exceptions import BadSignature
from eth_keys.main import KeyAPI

from workshop.localnet.evm.secp256k1 import Libsecp256k1

FAST, SLOW = KeyAPI(Libsecp256k1), KeyAPI(NativeECCBackend)
DIGEST = bytes(range(32))


@pytest.mark.parametrize("number", range(20))
def test_both_sign_the_same_and_find_the_same_signer(number):
    secret = bytes([number + 1]) + os.urandom(31)

    signature = FAST.ecdsa_sign(DIGEST, FAST.PrivateKey(secret))

    assert signature.to_bytes() == SLOW.ecdsa_sign(DIGEST, SLOW.PrivateKey(secret)).to_bytes()
    signer = FAST.ecdsa_recover(DIGEST, FAST.Signature(signature.to_bytes()))
    assert signer.to_bytes() == SLOW.ecdsa_recover(DIGEST, SLOW.Signature(signature.to_bytes())).to_bytes()
    assert signer.to_bytes() == FAST.PrivateKey(secret).public_key.to_bytes()
    assert FAST.ecdsa_verify(DIGEST, signature, signer)


def test_a_signature_of_nobody_is_refused_by_both():
    # No point of the curve has this x.
    nobody = (5).to_bytes(32, "big") + (1).to_bytes(32, "big") + b"\0"
    for api in (FAST, SLOW):
        with pytest.raises(BadSignature):
            api.ecdsa_recover(DIGEST, api.Signature(nobody))
