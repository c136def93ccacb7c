"""Find addresses that a person takes for one another. Pure.

People compare the first and the last characters of an address, and overlook single ones. So an address is like another
one of the same family of chains if both ends are the same, or one longer end is, or few characters differ. Thieves make
such addresses by trying out keys: six characters take seconds, eight take minutes.

Each address has pieces, which are indexed (`RegistrationRecord.pieces`): of two addresses that are alike, one has a
piece that is searched for the other. Of five parts that do not overlap, four edits leave one whole, moved by four
places at most.
"""

MOST_EDITS = 4
_SHORT_END = 4  # both ends
_LONG_END = 6  # one end
_PART = 6
_PARTS = 5


def ignores_case(chain: str) -> bool:
    """Tell whether the case of letters is only a checksum in addresses on a chain; `chain` is CAIP-2."""
    return _family(chain) == "eip155"


def comparable(chain: str, address: str) -> str:
    """Return what people compare of an address: on EVM chains without 0x, and in lower case."""
    return address.removeprefix("0x").lower() if ignores_case(chain) else address


def pieces_of(chain: str, address: str) -> list[str]:
    """List the pieces that an address is found by."""
    text = comparable(chain, address)
    parts = (_piece(chain, part, text[part * _PART : (part + 1) * _PART]) for part in range(_PARTS))
    return [*_ends(chain, text), *parts]


def pieces_like(chain: str, address: str) -> list[str]:
    """List the pieces of which an address that is like this one has at least one."""
    text = comparable(chain, address)
    moved = {
        _piece(chain, part, text[at : at + _PART])
        for part in range(_PARTS)
        for at in range(max(part * _PART - MOST_EDITS, 0), part * _PART + MOST_EDITS + 1)
    }
    return [*_ends(chain, text), *sorted(moved)]


def piece_of_ends(chain: str, head: str, tail: str) -> str:
    """Return the piece of all addresses that begin and end so; both have four characters of an address at least."""
    head, tail = comparable(chain, head), comparable(chain, tail)
    return _ends(chain, head[:_SHORT_END] + tail[-_SHORT_END:])[0]


def is_lookalike(chain: str, address: str, other_chain: str, other: str) -> bool:
    """Tell whether a person may take one address for the other. An address is not like itself."""
    one, two = comparable(chain, address), comparable(other_chain, other)
    if _family(chain) != _family(other_chain) or one == two:
        return False
    has_ends = one[:_SHORT_END] == two[:_SHORT_END] and one[-_SHORT_END:] == two[-_SHORT_END:]
    has_long_end = one[:_LONG_END] == two[:_LONG_END] or one[-_LONG_END:] == two[-_LONG_END:]
    return has_ends or has_long_end or _edits(one, two) <= MOST_EDITS


def _edits(one: str, two: str) -> int:
    """Count the characters to replace, insert or leave out to make one text of the other: Levenshtein's distance."""
    row = list(range(len(two) + 1))
    for number, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], number
        for place, other in enumerate(two, 1):
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (letter != other))
    return row[-1]


def _ends(chain: str, text: str) -> list[str]:
    both = _piece(chain, "ends", text[:_SHORT_END] + text[-_SHORT_END:])
    return [both, _piece(chain, "last", text[-_LONG_END:])]  # the first six are the first part


def _piece(chain: str, kind: object, text: str) -> str:
    return f"{_family(chain)[:3]} {kind} {text}"


def _family(chain: str) -> str:
    """Name the chains that share a form of addresses: the namespace of CAIP-2."""
    return chain.partition(":")[0]
