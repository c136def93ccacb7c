"""Keys and addresses are those that every wallet derives: BIP-32 by its own vectors, and `eth_account` beside it."""

import os

import pytest
from eth_account import Account
from eth_account.hdaccount import key_from_seed

from chains.evm.derivation import address_of, derive_account

# The seed of the words "test ... junk", with which anvil and hardhat begin: everybody knows its first accounts.
JUNK = bytes.fromhex(
    "9dfc3c64c2f8bede1533b6a79f8570e5943e0b8fd1cf77107adf7b72cef42185"
    "d564a3aee24cab43f80e3c4538087d70fc824eabbad596a23c97b6ee8322ccc0"
)


@pytest.mark.parametrize(
    ("number", "address"),
    [
        (0, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        (1, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        (9, "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720"),
    ],
)
def test_a_seed_has_the_accounts_that_everybody_knows(number, address):
    assert derive_account(JUNK, number)[1] == address


@pytest.mark.parametrize("length", [16, 32, 64])
@pytest.mark.parametrize("number", [0, 1, 15, 255, 256, 65_535, 2**31 - 1])
def test_relayers_have_the_keys_that_eth_account_derives(length, number):
    for _ in range(8):
        seed = os.urandom(length)
        expected = key_from_seed(seed, f"m/44'/60'/0'/0/{number}")

        key, address = derive_account(seed, number)

        assert (key.secret, address) == (expected, Account.from_key(expected).address)


@pytest.mark.parametrize("key", [(1).to_bytes(32, "big"), bytes([0xFF] * 15 + [1] * 17)])
def test_an_address_is_that_of_eth_account(key):
    assert address_of(key) == Account.from_key(key).address


@pytest.mark.parametrize("number", [-1, 2**32, "no number"])
def test_a_number_that_is_none_is_refused(number):
    with pytest.raises((OverflowError, AttributeError)):
        derive_account(JUNK, number)
