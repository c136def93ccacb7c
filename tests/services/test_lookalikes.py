"""Which addresses a person takes for one another."""

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.lookalikes import MOST_EDITS, comparable, is_lookalike, pieces_like, pieces_of

EVM, BASE, SOLANA = "eip155:1", "eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
KNOWN = "0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b474"
HEX = "0123456789abcdef"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
evm_addresses = st.text(HEX, min_size=40, max_size=40).map("0x{}".format)
solana_addresses = st.binary(min_size=32, max_size=32).map(lambda key: base58.b58encode(key).decode())
addresses = st.one_of(st.tuples(st.just(EVM), evm_addresses), st.tuples(st.just(SOLANA), solana_addresses))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("0x8c2BD4bb4a413e7D4719c811a309b3Ac5877b475", True),  # the last one
        ("0x8c2bd4bb4a413e7d4719c811a309b3ac5877b4ff", True),  # the last two
        ("0x8c2b" + "0" * 32 + "b474", True),  # both ends, and nothing else
        ("0x8c2bd4" + "0" * 34, True),  # a long beginning
        ("0x" + "0" * 34 + "77b474", True),  # a long end
        ("0x8c2b" + "0" * 32 + "b470", False),
        ("0x8c2bd0" + "0" * 34, False),
        ("0x" + "0" * 34 + "07b474", False),
        ("0xec2BD4bb4a413e7D4e19ce11a309b3Ac5877b47e", True),  # four, anywhere
        ("0xec2BD4bb4a4e3e7D4e19ce11a309b3Ac5877b47e", False),  # five
        ("0xc2BD4bb4a413e7D4719c811a309b3Ac5877b4748", True),  # one left out, one put in
        (KNOWN.lower(), False),  # it is the same address
    ],
)
def test_an_address_is_taken_for_another(other, expected):
    assert is_lookalike(EVM, KNOWN, EVM, other) is expected
    assert is_lookalike(BASE, KNOWN, EVM, other) is expected  # an address is the same on every EVM chain


def test_no_address_of_one_family_is_taken_for_one_of_another():
    assert not is_lookalike(EVM, "11112222", SOLANA, "11112223")


def test_the_case_of_a_letter_tells_addresses_on_solana_apart():
    assert is_lookalike(SOLANA, "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV", SOLANA,
                        "7ecDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV")  # fmt: skip


@given(addresses)
def test_an_address_is_not_taken_for_itself(address):
    assert not is_lookalike(*address, *address)


@given(addresses, addresses)
def test_both_are_taken_for_the_other_or_neither_is(one, other):
    assert is_lookalike(*one, *other) == is_lookalike(*other, *one)


@given(addresses, st.data())
def test_what_differs_in_few_characters_is_taken_for_it_and_found_by_its_pieces(known, data):
    chain, address = known
    text = comparable(chain, address)
    edited = list(text)
    for _ in range(data.draw(st.integers(1, MOST_EDITS))):
        place, letter = data.draw(st.integers(0, len(edited) - 1)), data.draw(st.sampled_from(HEX + BASE58))
        match data.draw(st.sampled_from(["replace", "insert", "leave out"])):
            case "replace":
                edited[place] = letter
            case "insert":
                edited.insert(place, letter)
            case _:
                del edited[place]
    other = comparable(chain, "".join(edited))
    if other == text:
        return

    assert is_lookalike(chain, other, chain, address)
    assert set(pieces_like(chain, other)) & set(pieces_of(chain, address))


@given(addresses, addresses)
def test_what_has_the_same_ends_is_taken_for_it_and_found_by_its_pieces(known, another):
    (chain, address), (other_chain, filling) = known, another
    text, middle = comparable(chain, address), comparable(other_chain, filling)
    for other in (text[:4] + middle[4:-4] + text[-4:], text[:6] + middle[6:], middle[:-6] + text[-6:]):
        if other != text and other_chain == chain:
            assert is_lookalike(chain, other, chain, address)
            assert set(pieces_like(chain, other)) & set(pieces_of(chain, address))


@given(addresses)
def test_a_piece_fits_its_column(address):
    assert max(map(len, pieces_of(*address))) <= 24
