"""The accounts that a payment touches. Each address is derived: none is looked up.

An escrow is a multisig account of a token program: two of two, the relayer and the policy signer. Each program accepts
its own multisigs only, so there is one under either; a token account of the escrow is the associated one.
"""

from functools import lru_cache

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID, MULTISIG_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from services import chains

NATIVE_MINT = Pubkey.from_string(chains.NATIVE_MINT)
TOKEN_PROGRAM = TOKEN_PROGRAM_ID
TOKEN_2022_PROGRAM = TOKEN_2022_PROGRAM_ID
TOKEN_PROGRAMS = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
SIGNATURES = 2
_LONGEST_SEED = 32


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


def escrow_seed(policy_signer: Pubkey) -> str:
    """Name the policy signer in the escrow's address, as far as a seed may be long."""
    return str(policy_signer)[:_LONGEST_SEED]


@lru_cache(maxsize=1024)
def escrow_of(relayer: Pubkey, policy_signer: Pubkey, program: Pubkey) -> Pubkey:
    """Derive the multisig of a relayer and a policy signer under a token program; only the relayer can create it."""
    return Pubkey.create_with_seed(relayer, escrow_seed(policy_signer), program)


def multisig_data(relayer: Pubkey, policy_signer: Pubkey) -> bytes:
    """Lay out what an escrow's account holds: two of two, initialised, who signs, and room for nine more."""
    head = bytes([SIGNATURES, SIGNATURES, True]) + bytes(relayer) + bytes(policy_signer)
    return head.ljust(MULTISIG_LEN, b"\0")


@lru_cache(maxsize=65_536)
def associated_account(owner: Pubkey, mint: Pubkey, program: Pubkey) -> Pubkey:
    """Derive where somebody holds a token; `program` is the mint's."""
    seeds = [bytes(owner), bytes(program), bytes(mint)]
    return Pubkey.find_program_address(seeds, ASSOCIATED_TOKEN_PROGRAM_ID)[0]


def temporary_account(relayer: Pubkey, payment_id: str) -> Pubkey:
    """Derive where the SOL of a payment is unwrapped; only the relayer can create it."""
    return Pubkey.create_with_seed(relayer, payment_id, TOKEN_PROGRAM)
