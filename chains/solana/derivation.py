"""Derive the addresses of the accounts that a payment touches. No node has to be asked.

An escrow is a multisig account of a token program: two of three, the relayer, the policy signer and the owner. Each
program accepts its own multisigs only, so there is one under each program. The token accounts of an escrow are its
associated accounts.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Multisig
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from chains import catalogue

NATIVE_MINT = Pubkey.from_string(catalogue.NATIVE_MINT)
TOKEN_PROGRAM = TOKEN_PROGRAM_ID
TOKEN_2022_PROGRAM = TOKEN_2022_PROGRAM_ID
TOKEN_PROGRAMS = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
SIGNATURES = 2
_LONGEST_SEED = 32
# The number of signers of an escrow, and the most signers of a multisig account.
_KEYS, _MOST_KEYS = 3, 11


@lru_cache(maxsize=1024)
def relayer_keypair(seed: bytes, number: int) -> Keypair:
    """Derive a relayer's key pair by SLIP-10 (the path of BIP-44 that wallets use)."""
    return Keypair.from_seed_and_derivation_path(seed, f"m/44'/501'/{number}'/0'")


@lru_cache(maxsize=1024)
def relayer_key(seed: bytes, number: int) -> Pubkey:
    """Derive a relayer's public key, and keep it: the pair computes it anew each time."""
    return relayer_keypair(seed, number).pubkey()


def public_key(secret: bytes) -> bytes:
    """Return the public key of a secret key, both of 32 bytes."""
    return bytes(Keypair.from_seed(secret).pubkey())


@dataclass(frozen=True, slots=True)
class EscrowSigners:
    """The signers of an escrow, in this order: any two of them can move its holdings, none alone.

    Relayer and policy signer sign payments. The owner's key is kept elsewhere, and withdraws together with either of
    them.
    """

    relayer: Pubkey
    policy_signer: Pubkey
    owner: Pubkey

    @classmethod
    def of(cls, relayer_seed: bytes, policy_signer: bytes, owner: str) -> "EscrowSigners":
        """Return the configured signers: `policy_signer` is a public key of 32 bytes, `owner` an address."""
        return cls(relayer_key(relayer_seed, 0), Pubkey(policy_signer), Pubkey.from_string(owner))

    @classmethod
    def of_data(cls, data: bytes) -> "EscrowSigners":
        """Read the signers of an escrow from its account's data. Compare the address, which is derived from them.

        Raises:
            ValueError: the data is not that of an escrow.
        """
        signers = cls(*Multisig.from_bytes(data).signers[:_KEYS])
        if signers.multisig_data != data:
            raise ValueError("not an escrow")
        return signers

    def owned_by(self, owner: str) -> "EscrowSigners":
        """Return these signers with another owner, given by its address."""
        return replace(self, owner=Pubkey.from_string(owner))

    @property
    def keys(self) -> tuple[Pubkey, Pubkey, Pubkey]:
        return self.relayer, self.policy_signer, self.owner

    @property
    def objection(self) -> str | None:
        """Why a single key could move the holdings, or the owner could never sign; None: neither is the case."""
        if self.relayer == self.policy_signer:
            return "The relayer and the policy signer have the same key: one alone would move everything."
        if self.owner in (self.relayer, self.policy_signer):
            return "The owner has the key of the relayer or the policy signer: one alone would move everything."
        if not self.owner.is_on_curve():
            return f"No key can sign for the owner {self.owner}: it is no wallet."
        return None

    @property
    def seed(self) -> str:
        """The seed of the escrow's address, from policy signer and owner, cut to the longest allowed seed."""
        named = hashlib.sha256(bytes(self.policy_signer) + bytes(self.owner)).digest()
        return str(Pubkey(named))[:_LONGEST_SEED]

    @property
    def multisig_data(self) -> bytes:
        """The data of an escrow's account: two of three, initialised, the signers, and eight empty places."""
        room = [Pubkey.default()] * (_MOST_KEYS - _KEYS)
        return bytes(Multisig(SIGNATURES, _KEYS, is_initialized=True, signers=[*self.keys, *room]))

    def escrow(self, program: Pubkey) -> Pubkey:
        """Derive the address of their multisig under a token program; only the relayer can create it."""
        return _escrow(self, program)

    def account(self, mint: Pubkey, program: Pubkey) -> Pubkey:
        """Derive the escrow's account for a token; `program` is the mint's."""
        return associated_account(self.escrow(program), mint, program)

    def owner_and_account(self, mint: str, program: str) -> tuple[str, str]:
        """Derive the owner and the address of the escrow's account for a token; all are addresses in text."""
        under = Pubkey.from_string(program)
        return str(self.escrow(under)), str(self.account(Pubkey.from_string(mint), under))


@lru_cache(maxsize=1024)
def _escrow(signers: EscrowSigners, program: Pubkey) -> Pubkey:
    return Pubkey.create_with_seed(signers.relayer, signers.seed, program)


@lru_cache(maxsize=65_536)
def associated_account(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """Derive the associated account of `owner` for a token; `program` is the mint's."""
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN_PROGRAM_ID)[0]


def temporary_account(relayer: Pubkey, payment_id: str) -> Pubkey:
    """Derive the account in which the SOL of a payment is unwrapped; only the relayer can create it."""
    return Pubkey.create_with_seed(relayer, payment_id, TOKEN_PROGRAM)
