"""Recipients `<chain>:<address>`: read strictly, kept canonical. Pure.

Source: docs/interface-specification.md, field `recipient`; docs/contract.md, "Services"; CAIP-2, CAIP-10, EIP-55;
RFC 8032.
"""

import re
from dataclasses import dataclass

import base58
from eth_utils.address import to_checksum_address

from chains.catalogue import CHAINS, Chain, Vm, find_chain

_EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_ANY_EVM_ADDRESS = re.compile(r"(0[xX])?[0-9a-fA-F]{40}|0[xX][0-9a-fA-F]{41,}", re.ASCII)
_SOLANA_ADDRESS = re.compile(r"[1-9A-HJ-NP-Za-km-z]{32,44}", re.ASCII)
_EVM_ZERO = "0x" + "0" * 40
_SOLANA_KEY_LENGTH = 32
# Programs and mints receive no payments. These exist on every cluster, and their addresses do not end like a name:
_SOLANA_PROGRAMS = {
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
    "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
    "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s",  # Metaplex Token Metadata
    "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9",  # wrapped SOL under Token-2022
}
# The contracts and mints of tokens receive no payments on any chain: nobody has a key for their addresses elsewhere.
_TOKENS = {address for chain in CHAINS for address in chain.tokens.values()}
# The end of a name that was padded to 32 bytes: the runtime's own programs, the sysvars, the incinerator. By chance,
# one key in 58^10 ends like this.
_SOLANA_FILLED_UP = "1" * 10
# The curve of Ed25519: -x² + y² = 1 + dx²y² (mod p).
_ED25519_P = 2**255 - 19
_ED25519_D = -121665 * pow(121666, -1, _ED25519_P) % _ED25519_P


class RecipientError(ValueError):
    """Raise with a sentence that says why a text is not a recipient."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A payee's account: the chain and the address in its canonical case."""

    chain: Chain
    address: str

    def __str__(self) -> str:
        """Return the recipient as CAIP-10, the only form in which recipients are compared."""
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
        return Recipient(chain, _evm_address(address))
    return Recipient(chain, _solana_address(address))


def looks_like_an_address(text: str) -> bool:
    """Return whether a text could be mistaken for a wallet address; such a text may not be a service id."""
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


def read_solana_address(text: str) -> str:
    """Read an address on a Solana chain, which has one form only.

    Raises:
        RecipientError: not 32 bytes in base58.
    """
    if not _is_solana_key(text):
        raise RecipientError("An address on Solana is 32 bytes in base58.")
    return text


def is_on_curve(address: str) -> bool:
    """Return whether an address on Solana is a point of Ed25519: only a point can have a secret key.

    The check is that of the runtime, which is laxer than RFC 8032: y may be p or more, and the sign of x = 0 does not
    matter.
    """
    y_squared = pow(int.from_bytes(base58.b58decode(address), "little") % 2**255, 2, _ED25519_P)
    # x² = u/v has a root exactly if uv is a square; v is never 0, because -1/d is none.
    u, v = y_squared - 1, _ED25519_D * y_squared + 1
    return pow(u * v, (_ED25519_P - 1) // 2, _ED25519_P) in (0, 1)


def _evm_address(text: str) -> str:
    address = read_evm_address(text)
    if address == _EVM_ZERO:
        raise RecipientError("The zero address cannot be paid.")
    if address in _TOKENS:
        raise RecipientError("This is the contract of a token, not a payee.")
    return address


def _solana_address(text: str) -> str:
    read_solana_address(text)
    if text in _SOLANA_PROGRAMS or text.endswith(_SOLANA_FILLED_UP) or text in _TOKENS:
        raise RecipientError("This is a program, a mint or an account of the chain's own, not a payee.")
    return text


def _is_solana_key(text: str) -> bool:
    return bool(_SOLANA_ADDRESS.fullmatch(text)) and len(base58.b58decode(text)) == _SOLANA_KEY_LENGTH
