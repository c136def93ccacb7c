"""Instructions that make the mints of the local chain; the one of PYUSD with the extensions that the real one has."""

import hashlib

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from spl.token.constants import MINT_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import initialize_mint2, initialize_transfer_fee_config
from spl.token.models import InitializeMint2Params, InitializeTransferFeeConfigParams

DECIMALS = 6
# By asset, in the order in which they are made. USDC, USDT and EURC are of the first program on public chains, too.
TOKEN_PROGRAMS = {
    "USDC": TOKEN_PROGRAM_ID,
    "USDT": TOKEN_PROGRAM_ID,
    "PYUSD": TOKEN_2022_PROGRAM_ID,
    "EURC": TOKEN_PROGRAM_ID,
}
_NOBODY = bytes(32)
_BYTES = 4  # what the length of a string is written in
_TLV_HEADER_BYTES = 4
# A mint with extensions is filled up to a token account's length, and then says what it is.
_EXTENDED_MINT_BYTES = 165 + 1
# Data of: close authority, permanent delegate, transfer fee, confidential transfer, its fee, transfer hook, metadata
# pointer.
_EXTENSIONS_BYTES = (32, 32, 108, 65, 129, 64, 64)
_METADATA = ("PayPal USD", "PYUSD", "https://token-metadata.paxos.com/pyusd_metadata/prod/solana/pyusd_metadata.json")


def mint_bytes(program: Pubkey) -> tuple[int, int]:
    """Return how long a mint is when it is made, and how long it will be: metadata are added afterwards."""
    if program == TOKEN_PROGRAM_ID:
        return MINT_LEN, MINT_LEN
    made = _EXTENDED_MINT_BYTES + sum(_TLV_HEADER_BYTES + length for length in _EXTENSIONS_BYTES)
    # Update authority, mint, the three strings, no further fields.
    metadata = 32 + 32 + sum(_BYTES + len(text) for text in _METADATA) + _BYTES
    return made, made + _TLV_HEADER_BYTES + metadata


def initialise(mint: Pubkey, program: Pubkey, authority: Pubkey) -> list[Instruction]:
    """Return what turns an empty account into a mint of `authority`."""
    made = initialize_mint2(
        InitializeMint2Params(
            decimals=DECIMALS, program_id=program, mint=mint, mint_authority=authority, freeze_authority=authority
        )
    )
    if program == TOKEN_PROGRAM_ID:
        return [made]
    return [*_extensions(mint, authority), made, _metadata(mint, authority)]


def _extensions(mint: Pubkey, authority: Pubkey) -> list[Instruction]:
    # Token-2022's numbers of its instructions; spl.token knows only the one about fees.
    owner = bytes(authority)
    fee = InitializeTransferFeeConfigParams(
        program_id=TOKEN_2022_PROGRAM_ID,
        mint=mint,
        transfer_fee_config_authority=authority,
        withdraw_withheld_authority=authority,
        transfer_fee_basis_points=0,
        maximum_fee=0,
    )
    return [
        _of_mint(mint, bytes([25, True]) + owner),  # may close the mint
        _of_mint(mint, bytes([35]) + owner),  # may move everybody's tokens
        initialize_transfer_fee_config(fee),
        _of_mint(mint, bytes([27, 0]) + owner + bytes([False]) + _NOBODY),  # confidential transfers, no auditor
        _of_mint(mint, bytes([37, 0]) + owner + _NOBODY),  # fees of confidential transfers, whose key nobody has
        _of_mint(mint, bytes([36, 0]) + owner + _NOBODY),  # a transfer hook, but no program
        _of_mint(mint, bytes([39, 0]) + owner + bytes(mint)),  # its metadata are in itself
    ]


def _of_mint(mint: Pubkey, data: bytes) -> Instruction:
    return Instruction(TOKEN_2022_PROGRAM_ID, data, [AccountMeta(mint, is_signer=False, is_writable=True)])


def _metadata(mint: Pubkey, authority: Pubkey) -> Instruction:
    name = hashlib.sha256(b"spl_token_metadata_interface:initialize_account").digest()[:8]
    texts = b"".join(len(text).to_bytes(_BYTES, "little") + text.encode() for text in _METADATA)
    accounts = [
        AccountMeta(mint, is_signer=False, is_writable=True),
        AccountMeta(authority, is_signer=False, is_writable=False),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(authority, is_signer=True, is_writable=False),
    ]
    return Instruction(TOKEN_2022_PROGRAM_ID, name + texts, accounts)
