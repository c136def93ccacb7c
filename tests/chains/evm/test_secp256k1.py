"""Our keys sign what another implementation of the same standards signs."""

import os
from traceback import walk_tb

import pytest
from eth_keys.backends.native.main import NativeECCBackend
from eth_keys.main import KeyAPI

from chains.evm.secp256k1 import SigningKey

# The order of the group: keys are 1 to ORDER - 1.
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
IN_PYTHON = KeyAPI(NativeECCBackend)

SECRETS = [
    (1).to_bytes(32, "big"),
    (ORDER - 1).to_bytes(32, "big"),
    bytes(range(1, 33)),
    *(b"\0" + os.urandom(31) for _ in range(20)),
]


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
def test_signatures_and_public_keys_are_those_that_python_computes(secret):
    ours, theirs = SigningKey(secret), IN_PYTHON.PrivateKey(secret)

    assert ours.public_point == theirs.public_key.to_bytes()
    for digest in (b"\0" * 32, b"\xff" * 32, os.urandom(32), os.urandom(32)):
        assert ours.sign(digest) == theirs.sign_msg_hash(digest).to_bytes()


@pytest.mark.parametrize("secret", [b"", b"\0" * 32, ORDER.to_bytes(32, "big"), b"\xff" * 32, b"\1" * 31, b"\1" * 33])
def test_what_is_no_key_is_refused(secret):
    with pytest.raises(ValueError, match="key"):
        SigningKey(secret)


def test_only_digests_of_32_bytes_are_signed():
    for digest in (b"", b"\1" * 31, b"\1" * 33):
        with pytest.raises(ValueError, match="32 bytes"):
            SigningKey(b"\1" * 32).sign(digest)


def test_a_key_prints_nothing_of_itself():
    key = SigningKey(b"\x5a" * 32)
    # Four bytes of it: two digits stand in the address of many an object.
    assert "5a" * 4 not in f"{key!r}{key!s}{key._secret!r}"
    assert "Z" * 4 not in f"{key!r}{key!s}{key._secret!r}"


@pytest.mark.parametrize("digest", ["no digest", 7, b"\1" * 31])
def test_no_variable_of_a_signature_that_fails_has_the_key(digest):
    secret = os.urandom(32)

    with pytest.raises(ValueError, match="32 bytes") as failed:
        SigningKey(secret).sign(digest)

    _, *frames = [frame.f_locals for frame, _ in walk_tb(failed.value.__traceback__)]
    assert repr(secret)[2:-1] not in repr(frames)
