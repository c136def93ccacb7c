"""A secret is what it is, and does not show itself."""

import base64
import copy
import pickle
import pprint
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core import signing

from foundation.kernel.secrecy import HIDDEN, Secret, SecretText

KEY, TEXT = Secret(b"0123456789abcdef0123456789abcdef"), SecretText("postgres://user:hunter22@db/x")


@pytest.mark.parametrize("secret", [KEY, TEXT])
@pytest.mark.parametrize("show", [repr, pprint.pformat, ascii, "{0!r}".format, lambda one: f"{one!r}"])
def test_a_secret_is_not_shown_alone_or_inside_something_else(secret: Any, show: Any) -> None:
    for thing in (secret, [secret], {"key": secret}, (secret,), {secret}):
        shown = show(thing)
        assert HIDDEN in shown
        assert "hunter22" not in shown
        assert "0123456789" not in shown


def test_a_key_is_not_formatted_either() -> None:
    key: Any = KEY
    assert {str(key), f"{key}", f"{key:>40}", "{}".format(key)} == {HIDDEN}  # noqa: UP032 - what is tested


def test_a_secret_is_what_it_hides() -> None:
    assert bytes(KEY) == b"0123456789abcdef0123456789abcdef" == KEY
    assert KEY != b"0123456789abcdef0123456789abcdeF"
    assert str(TEXT) != KEY
    assert {KEY: 1}[Secret(KEY)] == 1
    assert str(TEXT) == "postgres://user:hunter22@db/x" == TEXT
    assert Ed25519PrivateKey.from_private_bytes(KEY).sign(b"x") == Ed25519PrivateKey.from_private_bytes(
        bytes(KEY)
    ).sign(b"x")
    assert base64.b64decode(base64.b64encode(KEY)) == KEY


def test_what_is_signed_under_a_hidden_secret_is_signed_under_the_secret() -> None:
    signed = signing.Signer(key=SecretText("a long secret")).sign("value")
    assert signing.Signer(key="a long secret").unsign(signed) == "value"
    with pytest.raises(signing.BadSignature):
        signing.Signer(key=HIDDEN).unsign(signed)


@pytest.mark.parametrize("secret", [KEY, TEXT])
def test_a_secret_is_not_pickled_and_its_copy_hides_too(secret: Any) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert repr(copy.deepcopy({"key": secret})) == f"{{'key': {HIDDEN}}}"
