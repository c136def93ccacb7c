"""Requests by chance, near those that are valid, as bytes."""

import json
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from tests.fuzz.document import Headers
from tests.support.nasty_json import MEMBERS, around

_AGENTS = [
    "fuzz-agent",
    "fuzz-agent",
    "fuzz-agent",
    "fuzz-agent",
    "fuzz-agent",
    "fuzz-agent/on-solana",
    "fuzz-agent-paused",
    "nobody",
]
_NASTY_TEXTS = sorted({case.text for case in MEMBERS})
_NASTY_BODIES = [case.name for case in around(b"{}")]
# What a header's value may hold by HTTP: all but control characters, a tab excepted.
_VALUES = st.binary(max_size=300).map(lambda value: bytes(byte for byte in value if byte == 9 or 32 <= byte != 127))
# No U+0000, which spoils a whole body.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)

_LARGEST = 2**53 - 1
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-_LARGEST, _LARGEST) | st.floats(-1e15, 1e15) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_STRAYING = st.sampled_from([2.0**53, 1e16, -1e21, 1e300, 2**53, -(2**53), 10**400, float("nan"), -0.0, 5e-324]) | _JSON


@st.composite
def payment_bodies(draw: st.DrawFn) -> bytes:
    """Write a payment, a third of them with a member that strays, and some of them spoilt as bytes."""
    agent = draw(st.sampled_from(_AGENTS))
    payee, asset = ("fuzz-payee-on-solana", "SOL") if "solana" in agent else ("fuzz-payee", "USDC")
    members: dict[str, object] = {
        "agentId": agent,
        "service": draw(st.sampled_from([*[payee] * 4, "nobody"])),
        "amount": draw(st.sampled_from(["0.01", "0.02", "1.00", "0.03", "0.04", "10.5", "0.0000001"])),
        "asset": draw(st.sampled_from([*[asset] * 5, "EURC"])),
        "reason": draw(_TEXT) + "r",
        "metadata": draw(st.none() | st.dictionaries(_TEXT, _JSON, max_size=3)),
    }
    texts = {name: json.dumps(value, ensure_ascii=draw(st.booleans())).encode() for name, value in members.items()}
    name, how = draw(st.sampled_from([*members, "", "x"])), draw(st.integers(0, 14))
    if how == 0:
        texts.pop(name, None)
    elif how == 1:
        texts[name] = draw(st.sampled_from(_NASTY_TEXTS))
    elif how < 5:
        texts[name] = json.dumps(draw(_STRAYING)).encode()
    parts = [json.dumps(name).encode() + b":" + text for name, text in draw(st.permutations([*texts.items()]))]
    twice = [draw(st.sampled_from(parts))] if how == 9 else []
    return _spoilt(draw, b"{" + b",".join([*parts, *twice]) + b"}")


def _spoilt(draw: st.DrawFn, body: bytes) -> bytes:
    how = draw(st.integers(0, 24))
    if how == 0:
        at = draw(st.integers(0, len(body)))
        return body[:at] + draw(st.binary(min_size=1, max_size=4)) + body[at + draw(st.integers(0, 4)) :]
    if how == 1:
        return body[: draw(st.integers(0, len(body)))]
    if how == 2:
        name = draw(st.sampled_from(_NASTY_BODIES))
        return next(case.text for case in around(body) if case.name == name)
    if how == 3:
        return body + draw(st.sampled_from([b" ", b"\x00", b"x"])) * (64 * 1024 - len(body) + draw(st.integers(-1, 1)))
    if how == 4:
        return draw(st.binary(max_size=200))
    return body


def plain_payments() -> st.SearchStrategy[bytes]:
    """Write a payment that is approved as it is: for what is drawn around it."""
    members = {"agentId": "fuzz-agent", "service": "fuzz-payee", "amount": "0.01", "asset": "USDC", "reason": "Plain"}
    return st.just(json.dumps(members).encode())


def headers(key: bytes, keys: list[bytes]) -> st.SearchStrategy[Headers]:
    """Name a key, mostly a good one, and add what clients and proxies send, and what they should not."""
    credentials = st.one_of(
        st.just([(b"Authorization", b"Bearer " + key)]),
        st.just([(b"x-api-key", key)]),
        st.sampled_from(keys).map(lambda other: [(b"AUTHORIZATION", b"bearer  " + other)]),
        st.tuples(st.sampled_from([b"Authorization", b"X-API-Key"]), _VALUES).map(lambda header: [header]),
        st.just([(b"Authorization", b"Bearer " + key), (b"X-API-Key", key)]),
        st.sampled_from(keys).map(lambda other: [(b"Authorization", b"Bearer " + key), (b"X-API-Key", other)]),
    )
    names = st.sampled_from([
        b"Prefer", b"X-Request-Id", b"Accept", b"Accept-Language", b"Cookie", b"Origin", b"Referer", b"User-Agent",
        b"X-Forwarded-For", b"X-Forwarded-Proto", b"X-HTTP-Method-Override", b"If-None-Match", b"If-Modified-Since",
        b"Range", b"Content-Encoding", b"Idempotent-Replayed", b"Forwarded", b"Content-MD5", b"X-Script-Name",
    ])  # fmt: skip
    preferences = st.sampled_from([b"wait=1", b"wait=-1", b"wait=1e9", b"wait", b"wait=1, wait=2", b"respond-async"])
    known = st.tuples(st.just(b"Prefer"), preferences)
    return st.tuples(credentials, st.lists(known | st.tuples(names, _VALUES), max_size=4)).map(
        lambda parts: parts[0] + parts[1]
    )


def body_headers() -> st.SearchStrategy[Headers]:
    """Name a payment and the type of a body, well or badly."""
    types = st.sampled_from([
        b"application/json", b"application/json", b"application/json; charset=utf-16", b"application/vnd.api+json",
        b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x", b"*/*", b"",
        b"application/json, text/plain", b'APPLICATION/JSON;;;="', b"application/json\xff",
    ]) | _VALUES  # fmt: skip
    keys = st.one_of(
        st.uuids().map(lambda key: str(key).encode()),
        st.sampled_from([b"again", b'"again"', b'" "', b'"', b"", b"x" * 255, b"x" * 256, b"a, b", b"\xe9", b"a\tb"]),
        _VALUES,
    )
    type_of_it = _named(b"Content-Type", types)
    return st.tuples(type_of_it, _named(b"Idempotency-Key", keys)).map(lambda parts: parts[0] + parts[1])


def _named(name: bytes, values: st.SearchStrategy[bytes]) -> st.SearchStrategy[Headers]:
    """Send a header, or leave it out."""
    return values.map(lambda value: [(name, value)]) | st.builds(list)


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """Write a query of a list: names and values near those that are known, as bytes."""
    values = st.one_of(
        st.sampled_from([
            b"", b"0", b"1", b"-1", b"1.0", b"1e1", b"100", b"101", b"9" * 5000, b"%00", b"a%00b", b"%0a", b"%ff", b"%",
            b"%zz", b"%ud800", b"%ed%a0%80", b"approved", b"blocked", b"Approved", b"fuzz-agent", b"+",
            b"settled", b"fuzz-payee", b"0.01", b"1e400", b"2026-05-14T18:42:11.123Z", b"0001-01-01T00:00:00%2B14:00",
            b"9999-12-31T23:59:59-14:00", b"2026-02-30T00:00:00Z", b"%22again%22",
            b"fuzz-agent%2Fon-solana", b"%D9%A1", b"eyJhIjoxfQ.x.y", b"." * 50, b"a" * 3000,
        ]),
        st.binary(max_size=60).map(lambda value: quote_from_bytes(value).encode()),
    )  # fmt: skip
    names = st.sampled_from([
        b"agentId", b"result", b"limit", b"cursor", b"service", b"status", b"amount", b"since", b"idempotencyKey",
        b"limit[]", b"", b"%00", b"x",
    ])  # fmt: skip
    pairs = draw(st.lists(st.tuples(names, values), max_size=5))
    return draw(st.sampled_from([b"&", b"&", b"&", b";", b"&&"])).join(name + b"=" + value for name, value in pairs)


def path_segments() -> st.SearchStrategy[bytes]:
    """Write what stands for an id in a path, escaped."""
    return st.one_of(
        st.sampled_from([
            b"fuzz-agent", b"fuzz-agent/on-solana", b"fuzz-agent%2Fon-solana", b"%00", b"a%00", b"%0A", b"a%0ab",
            b"%0d%0a", b"%7f", b"%c2%85", b"%ff", b"%ed%a0%80", b"..", b"%2e%2e", b"../x", b"%2F", b"//", b"%25", b"%",
            b"%zz", b"a" * 5000, b"pay_01krkwqp1kzyp86wfhrxwpz1t0", b"PAY_01KRKWQP1KZYP86WFHRXWPZ1T0", b"request",
            b"services", b"a;b=c", b"a+b", b"%20", b"~",
        ]),
        st.binary(min_size=1, max_size=40).map(lambda value: quote_from_bytes(value, safe="").encode()),
    )  # fmt: skip


@st.composite
def spliced(draw: st.DrawFn, request: bytes) -> bytes:
    """Put some bytes in place of others of a request, mostly in its head."""
    at = draw(st.integers(0, len(request)) | st.integers(0, request.index(b"\r\n\r\n") + 4))
    put = draw(
        st.binary(max_size=3)
        | st.sampled_from([b"a", b"Zz", b"007"])
        | st.sampled_from([b"\r\n", b"\n", b"\x00", b": ", b",", b" ", b"\r\n\r\n", b"x" * 40_000])
    )
    return request[:at] + put + request[at + draw(st.integers(0, 4)) :]
