"""Strict JSON in, canonical JSON out."""

import json
import sys
import threading

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.kernel.assets import Asset
from foundation.kernel.canonical import JsonError, canonical_json, fingerprint, read_json

LARGEST = 2**53 - 1


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b"{}x", b"{}{}", b"[1,]", b"{'a':1}", b'{"a":1,}', b"undefined", b"tru", b"01", b"+1", b"1.",
        b".5", b"NaN", b"Infinity", b"-Infinity", b'{"a":NaN}', b"1e999", b"-1e999", b'"\t"', b'"\x00"', b'"\\x41"',
        b'"\\ud800"', b'"\\udc00\\ud800"', b'{"\\ud800":1}', b'"\\u0000"', b'{"\\u0000":1}', b'{"a":["\\u0000"]}',
        b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"x":{"a":1,"a":2}}', b"\xff", b'"\xed\xa0\x80"', b'"\xc0\x80"',
        '{"a":1}'.encode("utf-16"), b"9007199254740992", b"-9007199254740992", b"1" * 5000, b"[" * 65 + b"]" * 65,
        b"9007199254740992.0", b"-9.007199254740992e15", b"1e16", b"-1e16", b"1E+20", b"123456789012345678901.5",
        b'{"a":{"b":[99999999999999999999e0]}}',
        b"[" * 30000, b'{"a":' * 10000, b"/**/1", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf1",
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_in_a_sentence(body):
    with pytest.raises(JsonError, match=r"^\S.+\.|.+ is not JSON\.|; send it as a string\.$"):
        read_json(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", {}),
        (b' \r\n\t{"a" : [1, 2.5, true, false, null, "x"]} \n', {"a": [1, 2.5, True, False, None, "x"]}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\u00e9"', "\u00e9"),
        (str(LARGEST).encode(), LARGEST),
        (str(-LARGEST).encode(), -LARGEST),
        (f"{LARGEST}.0".encode(), LARGEST),
        (b"-9.007199254740991e15", -LARGEST),
        (b"1e21", 1e21),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"5e-324", 5e-324),
        (b"1e-400", 0),
        (b"-0.0", 0),
        (b"[" * 64 + b"]" * 64, None),
    ],
)
def test_what_can_be_kept_is_read(body, value):
    read = read_json(body)

    assert value is None or read == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }'),
        (b'{"a":"\\u00e9"}', '{"a":"\u00e9"}'.encode()),
        (b'{"a":1}', b'{"a":1.0}'),
    ],
)
def test_the_same_value_written_differently_has_one_fingerprint(one, other):
    assert fingerprint(read_json(one)) == fingerprint(read_json(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":"1.0"}', b'{"a":"1.00"}'),
        (b'{"a":null}', b"{}"),
        (b'{"a":[1,2]}', b'{"a":[2,1]}'),
        (b'{"a":1}', b'{"a":"1"}'),
        (b'{"a":true}', b'{"a":1}'),
        # NFC and NFD are two texts.
        ('{"a":"\u00e9"}'.encode(), '{"a":"e\u0301"}'.encode()),
    ],
)
def test_different_values_have_different_fingerprints(one, other):
    assert fingerprint(read_json(one)) != fingerprint(read_json(other))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\u00e9\U0001f600"), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_the_canonical_form_reads_back_as_the_same_value(value):
    if "\\u0000" not in canonical_json(value).decode():
        assert read_json(canonical_json(value)) == value


numbers = (
    st.floats()
    | st.integers(-(10**24), 10**24)
    | st.builds(lambda mantissa, power: mantissa * 10.0**power, st.integers(-99, 99), st.integers(-330, 300))
    | st.sampled_from([-0.0, 5e-324, 2.0**53 - 1, 2.0**53, 1e21, 999999999999999868928.0, 1e16, 1e-6, 1e-7])
)
spellings = numbers.map(json.dumps) | st.from_regex(
    r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


@given(spellings.map("[{}]".format) | spellings.map('{{"a":{{"b":{}}}}}'.format))
@settings(max_examples=1_000)
def test_every_number_that_is_admitted_is_written_and_read_again_as_an_equal_one_for_ever(text):
    try:
        value = read_json(text.encode())
    except JsonError:
        return
    written = canonical_json(value)
    again = read_json(written)

    assert again == value
    assert canonical_json(again) == written
    # As the log reads what it keeps, and as a client reads what the log answers.
    assert canonical_json(json.loads(written)) == canonical_json(json.loads(json.dumps(again))) == written


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"a":' * 12_000, b'["\\"[", ' * 8_000])
def test_a_deep_body_is_refused_on_the_small_stack_of_a_server_thread_whatever_pythons_limit(body):
    refused = []

    def read():
        with pytest.raises(JsonError):
            read_json(body)
        refused.append(True)

    limit, stack = sys.getrecursionlimit(), threading.stack_size(2 << 20)
    sys.setrecursionlimit(100_000)  # as py_ecc does, which eth_account imports
    try:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(stack)
    assert refused


_NUMBERS = st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False, allow_infinity=False)
# Names that sort otherwise by UTF-16 units than by code points, and texts that are escaped.
_TEXTS = st.text() | st.sampled_from(["\uffff", "\U00010000", "\x7f", "\x1f\b\t\n\f\r", '"\\/', "\u2028", "\x00"])
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
@settings(max_examples=300)
def test_the_form_is_that_of_the_library_whichever_encoder_wrote_it(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [{"a": LARGEST + 1}, [-LARGEST - 1], {1: 2}, {"a": "\ud800"}, ["x", object()], {"a": {1}}]
)
def test_what_has_no_canonical_form_is_refused_as_the_library_does(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json(value)


def test_kinds_of_text_are_written_as_text():
    assert canonical_json({"asset": Asset.USDC}) == b'{"asset":"USDC"}'
