"""Nasty JSON, as bytes: what a reader may stumble over, and what becomes of it here.

Numbers, strings, structure, encoding, depth, duplicates and sizes, after the categories of the JSON test suites.
"""

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, slots=True)
class Nasty:
    """A case: a whole body, or with `member` the value of that one. `param` is what a 400 is about; "": the body."""

    name: str
    text: bytes
    status: int = 400
    param: str = ""
    member: str | None = None


def _nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


# Numbers of a metadata member. From 2^53 every float is whole; canonical JSON writes it as an integer below 1e21.
_KEPT_NUMBERS = [
    b"0", b"-0", b"0.0", b"-0.0", b"0e0", b"0e400", b"1e0", b"1E+2", b"1e-2", b"1.50", b"0.1e1", b"1e-400",
    b"1e-99999999", b"5e-324", b"2.2250738585072011e-308", b"0.1", b"9007199254740991", b"-9007199254740991",
    b"9007199254740991.0", b"4503599627370496.5", b"9e15", b"0." + b"3" * 5000, b"1" + b"0" * 14 + b".5",
    b"1e21", b"-1e22", b"1.5e300", b"1.7976931348623157e308",
]  # fmt: skip
_REFUSED_NUMBERS = [
    b"9007199254740992", b"-9007199254740992", b"9007199254740992.0", b"9007199254740993.0", b"1e16", b"-1e16",
    b"999999999999999868928.0",
    b"1e20", b"1e309", b"-1e400", b"1e5000000", b"9" * 30,
    b"1" * 5000, b"-" + b"1" * 5000,
    b"01", b"-01", b"00", b"+1", b"1.", b".5", b"-.5", b"1.e5", b"1e", b"1e+", b"1e1.5", b"0x10", b"0b1", b"0o7",
    b"1_000", b"1,000", b"--1", b"-", b"- 1", b"1 2", b"1n", b"1f", b"NaN", b"-NaN", b"Infinity", b"-Infinity",
    b"inf", b"nan", "\u0661".encode(), "\uff11".encode(), "1\u00b2".encode(),
]  # fmt: skip
_KEPT_STRINGS = [
    b'""', rb'"\"\\\/\b\f\n\r\t"', rb'"\u00e9\u00E9"', rb'"\ud83d\ude00"', rb'"\uDBFF\uDFFF"', b'"\x7f"',
    rb'"\u0001\u001f"', '"\U0010ffff\uffff\ufdd0"'.encode(), '"\u2028\u2029\ufeff\u200b"'.encode(),
    '"e\u0301 \u00e9"'.encode(), '"\u202e"'.encode(), b'"' + b"[{" * 2000 + b'"',
    rb'"\\u0000"', rb'"\\\\"', b'"' + rb"\u0041" * 9000 + b'"', '"\ud7ff\ue000"'.encode(), b'"</script><!--"',
    b"\"'; DROP TABLE payments; --\"", b'"%s%n{0}${x}{{7*7}}"',
]  # fmt: skip
_REFUSED_STRINGS = [
    b'"', b'"x', b"'x'", b"x", b'"\\"', rb'"\x41"', rb'"\u12"', rb'"\u{41}"', rb'"\U00000041"', rb'"\'"', rb'"\a"',
    rb'"\0"', rb'"\u 041"', rb'"\u-041"', b'"\t"', b'"\n"', b'"\x01"', b'"\x1f"', b'"\x00"', rb'"\u0000"',
    rb'"x\u0000y"',
    rb'"\ud800"', rb'"\udc00"', rb'"\udc00\ud800"', rb'"\ud800\ud800"', rb'"\ud800x"', rb'"\ud800\u0041"', rb'"\uDFFF"',
    b'"\xff"', b'"\x80"', b'"\xc0\x80"', b'"\xc1\xbf"', b'"\xe0\x80\x80"', b'"\xed\xa0\x80"', b'"\xed\xb0\x80"',
    b'"\xed\xa0\xbd\xed\xb8\x80"', b'"\xe2\x82"', b'"\xf4\x90\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b'"caf\xe9"',
    b'"x" "y"', b"`x`", b'"x"+"y"',
]  # fmt: skip
_KEPT_STRUCTURES = [
    b"null", b"true", b"false", b"[]", b"{}", b"[[],{}]", b' [ 1 ,\t2\r\n, {"a" :\n1} ] ', b'{"":0}', b'{" ":{"":[]}}',
    b'{"a":{"a":{"a":1}}}', b'[{"a":1},{"a":1}]', b'{"__proto__":{"x":1},"constructor":0,"toString":null}',
    b'{"$ref":"#","@type":"x"}', '{"e\u0301":1,"\u00e9":2}'.encode(), b'{"a":1,"A":2}', b'{"1":1,"1.0":2}',
    b'{"\\ud83d\\ude00":1}', '{"\U0001f600":1}'.encode(), b"[" + b"0," * 4000 + b"0]",
    '{"\U00010000":1,"\ue000":2,"z":3}'.encode(), _nested(9),
]  # fmt: skip
_REFUSED_STRUCTURES = [
    b"", b"[1,]", b"[,1]", b"[1,,2]", b"[,]", b'{"a":1,}', b'{,"a":1}', b'{"a":1,,"b":2}', b'{"a"}', b'{"a":}', b"{:1}",
    b"{a:1}", b'{"a" 1}', b'{"a"::1}', b"{1:2}", b"{null:1}", b"[1 2]", b"[1;2]", b"[1}", b'{"a":1]', b"[", b"{", b"]",
    b"}", b"[[]", b'{"a":{}', b"(1)", b"<1>", b"1/**/", b"/*x*/1", b"1//", b"#", b"tru", b"True", b"TRUE", b"nul",
    b"None", b"NULL", b"undefined", b"new Date()", b"\xc2\xa01", b"\x0c1", b"\x0b1", b"\xef\xbb\xbf1", b"\xe2\x80\xa81",
    b"1\x00", b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":1}', '{"\u00e9":1,"\\u00e9":1}'.encode(),
    b'{"":1,"":1}', b'[{"a":{"b":1,"b":1}}]', b'{"\\u0000":1}', b'{"\\ud800":1}', b'{"a\\u0000":1,"a":1}',
    _nested(63), _nested(1000), b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 30_000, b'["\\"[",' * 5000,
]  # fmt: skip
# Values of members of a payment that are not of the type, form or size that they must have.
_NO_STRING = [b"null", b"true", b"0", b"1", b"1.5", b"[]", b"{}", b'["x"]', b'{"x":"1"}']
_REFUSED_MEMBERS: dict[str, list[bytes]] = {
    "amount": [
        *_NO_STRING, b'""', b'"0"', b'"0.0"', b'"00000"', b'"-1"', b'"+1"', b'" 1"', b'"1 "', b'"1\\n"', b'"1."',
        b'".5"', b'"1e3"', b'"1E-2"', b'"0x1"', b'"1,5"', b'"1_0"', b'"1/2"', b'"NaN"', b'"Infinity"', b'"1.0000001"',
        b'"1.0000000"',
        b'"' + b"1" * 21 + b'"', b'"1.' + b"0" * 19 + b'"', b'"' + b"9" * 5000 + b'"', '"\uff11"'.encode(),
        '"\u0661"'.encode(), '"1\u200b"'.encode(), '"\u00bd"'.encode(), b'"1 USDC"', b'"$1"',
    ],
    "asset": [*_NO_STRING, b'""', b'"usdc"', b'"USDC "', b'"Usdc"', b'"USDX"', '"\uff35SDC"'.encode(), b'"0"'],
    "agentId": [*_NO_STRING, b'""', b'"a\\tb"', b'"a\\u0085b"', b'"a\\u007f"', b'"' + b"a" * 256 + b'"'],
    "service": [*_NO_STRING, b'""', b'"a\\nb"', b'"\\u0001"', b'"' + b"a" * 256 + b'"'],
    "reason": [
        *_NO_STRING, b'""', b'" "', b'" \\n\\t "', '"\u3000"'.encode(), '"\u200b"'.encode(),
        b'"' + b"r" * 1001 + b'"',
    ],
    "metadata": [
        b"true", b"0", b'"x"', b'"{}"', b"[]", b"[{}]", b'{"x":' + _nested(10) + b"}",
        b'{"x":"' + b"m" * (16 * KIB - 7) + b'"}', b'{"x":"' + "\u00e9".encode() * (8 * KIB) + b'"}',
    ],
}  # fmt: skip
_KEPT_MEMBERS: dict[str, list[bytes]] = {
    "amount": [b'"0.01"', b'"00.010000"', b'"0.000001"', b'"\\u0030.01"'],
    "reason": [
        b'"\\u0001\\u001f\\t\\r\\n x"', b'"' + b"r" * 1000 + b'"', b'"  ' + b"r" * 1000 + b'  "', '"\u202ex"'.encode(),
        '"\u200bx"'.encode(), '"\U0001f600"'.encode(), b'"\\ud83d\\ude00"', b'"=1+1"',
    ],
    "metadata": [
        b"null", b"{}", b'{"x":"' + b"m" * (16 * KIB - 8) + b'"}', b'{"x":' + b" " * 30_000 + b"1}",
        b'{"id":"evt","amount":"9","metadata":{}}',
    ],
    "unknown": [b"null", b'{"amount":"9"}', _nested(63), b'"' + b"u" * 60_000 + b'"'],
    "Amount": [b'"9"'],
    "": [b"1"],
}  # fmt: skip


def _of_metadata(kind: str, texts: list[bytes], status: int) -> list[Nasty]:
    return [Nasty(_named(kind, text), b'{"x":' + text + b"}", status, "", "metadata") for text in texts]


def _of_members(members: dict[str, list[bytes]], status: int) -> list[Nasty]:
    return [Nasty(_named(name, text), text, status, name, name) for name, texts in members.items() for text in texts]


def _named(kind: str, text: bytes) -> str:
    shown = ascii(text)[2:-1]
    return f"{kind} {shown if len(shown) < 50 else f'{shown[:30]}... of {len(text)}'}"


def around(valid: bytes) -> list[Nasty]:
    """Make the cases that are whole bodies, of a valid one that ends with its brace."""
    inside = valid[1:-1]
    refused = {
        "nothing": b"", "a space": b" ", "null": b"null", "a number": b"1", "a string": b'"x"', "an array": b"[]",
        "the body in an array": b"[" + valid + b"]", "the body as a string": b'"' + valid.replace(b'"', b'\\"') + b'"',
        "two bodies": valid + valid, "two bodies in lines": valid + b"\n" + valid, "text behind": valid + b"x",
        "a NUL behind": valid + b"\x00", "a NUL before": b"\x00" + valid, "a brace behind": valid + b"}",
        "no end": valid[:-1], "no beginning": valid[1:], "a comma at the end": valid[:-1] + b",}",
        "two marks of byte order": b"\xef\xbb\xbf" * 2 + valid, "half a mark": b"\xef\xbb" + valid,
        "UTF-16": valid.decode().encode("utf-16"), "UTF-16 without a mark": valid.decode().encode("utf-16-le"),
        "UTF-32": valid.decode().encode("utf-32"), "a prefix against JSONP": b")]}',\n" + valid,
        "JSONP": b"call(" + valid + b")", "a record of a JSON sequence": b"\x1e" + valid + b"\n",
        "gzip": b"\x1f\x8b\x08\x00\x00\x00", "a form": b"amount=1&asset=USDC", "XML": b"<amount>1</amount>",
        "YAML": b"amount: '1'\nasset: USDC\n", "a comment": b"/**/" + valid, "single quotes": valid.replace(b'"', b"'"),
        "an amount twice": b"{" + inside + b',"amount":"0.01"}', "an amount twice, once escaped":
        b"{" + inside + rb',"\u0061mount":"9"' + b"}", "an asset twice": b'{"asset":"SOL",' + inside + b"}",
        "a spread": b"{..." + valid + b"}",
    }  # fmt: skip
    kept = {
        "as it is": valid, "a mark of byte order": b"\xef\xbb\xbf" + valid, "a line's end": valid + b"\r\n",
        "space around": b" \t\r\n" * 100 + valid + b"\n" * 100, "64 KiB": valid + b" " * (64 * KIB - len(valid)),
        "escaped names": valid.replace(b'"amount"', rb'"\u0061\u006dount"'),
        "escaped values": valid.replace(b'"USDC"', rb'"\u0055SDC"'),
    }  # fmt: skip
    return [
        *(Nasty(name, body) for name, body in refused.items()),
        *(Nasty(name, body, 201) for name, body in kept.items()),
        Nasty("more than 64 KiB", valid + b" " * (64 * KIB + 1 - len(valid)), 413),
    ]


MEMBERS = [
    *_of_metadata("number", _KEPT_NUMBERS, 201),
    *_of_metadata("number", _REFUSED_NUMBERS, 400),
    *_of_metadata("string", _KEPT_STRINGS, 201),
    *_of_metadata("string", _REFUSED_STRINGS, 400),
    *_of_metadata("structure", _KEPT_STRUCTURES, 201),
    *_of_metadata("structure", _REFUSED_STRUCTURES, 400),
    *_of_members(_KEPT_MEMBERS, 201),
    *_of_members(_REFUSED_MEMBERS, 400),
]
