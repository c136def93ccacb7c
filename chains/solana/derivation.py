"""The accounts that a payment touches. Each address is derived: none is looked up.

An escrow is a multisig account of a token program: two of three, the relayer, the policy signer and the owner. Each
program accepts its own multisigs only, so there is one under either; a token account of the escrow is the associated
one.
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
# The signers of an escrow, and the room for signers in a multisig account.
_KEYS, _MOST_KEYS = 3, 11


@lru_cache(maxsize=1024)
def relayer_keypair(seed: bytes, number: int) -> Keypair:
    """Derive a relayer's keys by SLIP-10 (path of BIP-44, as wallets have it)."""
    return Keypair.from_seed_and_derivation_path(seed, f"m/44'/501'/{number}'/0'")


@lru_cache(maxsize=1024)
def relayer_key(seed: bytes, number: int) -> Pubkey:
    """Derive a relayer's public key; the pair computes it anew whenever it is asked."""
    return relayer_keypair(seed, number).pubkey()


def public_key(secret: bytes) -> bytes:
    """Tell the public key of a secret one, both of 32 bytes."""
    return bytes(Keypair.from_seed(secret).pubkey())


@dataclass(frozen=True, slots=True)
class EscrowSigners:
    """Who signs for an escrow, in this order: any two of them move what it holds, none alone.

    Relayer and policy signer pay. The owner's key is kept elsewhere, and takes the money out together with either.
    """

    relayer: Pubkey
    policy_signer: Pubkey
    owner: Pubkey

    @classmethod
    def of(cls, relayer_seed: bytes, policy_signer: bytes, owner: str) -> "EscrowSigners":
        """Gather what is configured: the policy signer's public key, of 32 bytes, and the owner's address."""
        return cls(relayer_key(relayer_seed, 0), Pubkey(policy_signer), Pubkey.from_string(owner))

    @classmethod
    def of_data(cls, data: bytes) -> "EscrowSigners":
        """Read whose an escrow is from what its account holds. Compare the address: it is derived from them.

        Raises:
            ValueError: it is no escrow.
        """
        signers = cls(*Multisig.from_bytes(data).signers[:_KEYS])
        if signers.multisig_data != data:
            raise ValueError("not an escrow")
        return signers

    def owned_by(self, owner: str) -> "EscrowSigners":
        """Put another owner in the owner's place, by its address."""
        return replace(self, owner=Pubkey.from_string(owner))

    @property
    def keys(self) -> tuple[Pubkey, Pubkey, Pubkey]:
        return self.relayer, self.policy_signer, self.owner

    @property
    def objection(self) -> str | None:
        """Why one of the three alone would move everything, or one never anything; None: neither is so."""
        if self.relayer == self.policy_signer:
            return "The relayer and the policy signer have the same key: one alone would move everything."
        if self.owner in (self.relayer, self.policy_signer):
            return "The owner has the key of the relayer or the policy signer: one alone would move everything."
        if not self.owner.is_on_curve():
            return f"No key can sign for the owner {self.owner}: it is no wallet."
        return None

    @property
    def seed(self) -> str:
        """Name policy signer and owner in the escrow's address, as far as a seed may be long."""
        named = hashlib.sha256(bytes(self.policy_signer) + bytes(self.owner)).digest()
        return str(Pubkey(named))[:_LONGEST_SEED]

    @property
    def multisig_data(self) -> bytes:
        """What an escrow's account holds: two of three, initialised, who signs, and room for eight more."""
        room = [Pubkey.default()] * (_MOST_KEYS - _KEYS)
        return bytes(Multisig(SIGNATURES, _KEYS, is_initialized=True, signers=[*self.keys, *room]))

    def escrow(self, program: Pubkey) -> Pubkey:
        """Derive their multisig under a token program; only the relayer can create it."""
        return _escrow(self, program)

    def account(self, mint: Pubkey, program: Pubkey) -> Pubkey:
        """Derive where their escrow holds a token; `program` is the mint's."""
        return associated_account(self.escrow(program), mint, program)


@lru_cache(maxsize=1024)
def _escrow(signers: EscrowSigners, program: Pubkey) -> Pubkey:
    return Pubkey.create_with_seed(signers.relayer, signers.seed, program)


@lru_cache(maxsize=65_536)
def associated_account(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """Derive where somebody holds a token; `program` is the mint's."""
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN_PROGRAM_ID)[0]


def temporary_account(relayer: Pubkey, payment_id: str) -> Pubkey:
    """Derive where the SOL of a payment is unwrapped; only the relayer can create it."""
    return Pubkey.create_with_seed(relayer, payment_id, TOKEN_PROGRAM)
