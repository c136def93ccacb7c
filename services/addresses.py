"""Recipients `<chain>:<address>`: read strictly, kept canonical. Pure.

Source: specification, field `recipient`; contract.md, "Services"; CAIP-2, CAIP-10, EIP-55.
"""

import re
from dataclasses import dataclass

import base58
from eth_utils.address import to_checksum_address

from services.chains import Chain, Vm, find_chain

_EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_ANY_EVM_ADDRESS = re.compile(r"(0[xX])?[0-9a-fA-F]{40}|0[xX][0-9a-fA-F]{41,}", re.ASCII)
_SOLANA_ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}", re.ASCII)
_EVM_ZERO = "0x" + "0" * 40
_SOLANA_KEY_LENGTH = 32
# Programs own accounts, they do not receive payments.
_SOLANA_PROGRAMS = {
    "11111111111111111111111111111111",
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
}


class RecipientError(ValueError):
    """Say in a sentence why a text is not a recipient."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A payee's account: the chain and the address in its canonical case."""

    chain: Chain
    address: str

    def __str__(self) -> str:
        """Write it as CAIP-10, the one form in which recipients are compared."""
        return f"{self.chain.caip2}:{self.address}"


def parse_recipient(text: str) -> Recipient:
    """Read `alias:address` or CAIP-10.

    Raises:
        RecipientError: unknown chain, or not an address that can be paid on it.
    """
    chain_name, _, address = text.rpartition(":")
    chain = find_chain(chain_name)
    if chain is None:
        raise RecipientError(
            "Must be <chain>:<address>, the chain an alias such as base or a CAIP-2 id that is known here."
        )
    if chain.vm is Vm.EVM:
        return Recipient(chain, _evm_address(address, chain))
    return Recipient(chain, _solana_address(address, chain))


def looks_like_an_address(text: str) -> bool:
    """Tell whether a text could be mistaken for a wallet address, so that no service id is one."""
    return any(_ANY_EVM_ADDRESS.fullmatch(part) or _is_solana_key(part) for part in re.split(r"[:/@+]", text))


def read_evm_address(text: str) -> str:
    """Read an address on an EVM chain into its EIP-55 form.

    Raises:
        RecipientError: not 0x and 40 hexadecimal digits, or mixed case that fails its checksum.
    """
    if not _EVM_ADDRESS.fullmatch(text):
        raise RecipientError("An address on an EVM chain is 0x and 40 hexadecimal digits.")
    checksummed = str(to_checksum_address(text))
    digits = text[2:]
    if text != checksummed and digits not in (digits.lower(), digits.upper()):
        raise RecipientError("The address fails its EIP-55 checksum: a letter's case is wrong, or a digit.")
    return checksummed


def _evm_address(text: str, chain: Chain) -> str:
    address = read_evm_address(text)
    if address == _EVM_ZERO:
        raise RecipientError("The zero address cannot be paid.")
    if address in chain.tokens.values():
        raise RecipientError("This is the contract of a token, not a payee.")
    return address


def _solana_address(text: str, chain: Chain) -> str:
    if not _is_solana_key(text):
        raise RecipientError(f"An address on {chain.alias} is 32 bytes in base58.")
    if text in _SOLANA_PROGRAMS or text in chain.tokens.values():
        raise RecipientError("This is a program or a mint, not a payee.")
    return text


def _is_solana_key(text: str) -> bool:
    return bool(_SOLANA_ADDRESS.fullmatch(text)) and len(base58.b58decode(text)) == _SOLANA_KEY_LENGTH
