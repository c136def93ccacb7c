"""Prepare the local Solana chain for payments: mints, an escrow with money, a relayer with SOL.

All addresses follow from keys. Whatever does not exist is made, each thing by one transaction: a run that was killed
half way is finished by the next, and another RELAYER_SEED in the environment becomes effective. An escrow that was made
for other keys, or for two by an older version, stays there with what it holds, and is not used any more.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import (
    CreateAccountWithSeedParams,
    TransferParams,
    create_account_with_seed,
    transfer,
)
from spl.token.constants import MULTISIG_LEN, TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID, WRAPPED_SOL_MINT
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    initialize_multisig2,
    mint_to_checked,
    sync_native,
)
from spl.token.models import InitializeMultisig2Params, MintToCheckedParams, SyncNativeParams

from workshop.embedded.keys import key_in_use, keys_of
from workshop.embedded.solana_mints import DECIMALS, TOKEN_PROGRAMS, initialise, mint_bytes
from workshop.embedded.solana_transactions import NewestState, Step, send
from workshop.localnet.folder import Folder

_SOL = 10**9
_ESCROW_LAMPORTS = 1_000_000 * _SOL
_RELAYER_LAMPORTS = 1_000 * _SOL
_RELAYER_MINIMUM_LAMPORTS = 10 * _SOL
# In the escrow, and again with the deployer, who can deposit it as a customer.
_FUNDS_ATOMIC = 1_000_000 * 10**DECIMALS
_SEED_LENGTH = 32
_SIGNATURES = 2


@dataclass(frozen=True)
class SolanaSetup:
    """The state that the chain should have."""

    deployer: Keypair
    policy_signer: Pubkey
    owner: Pubkey
    relayer: Keypair
    done_file: Path

    @classmethod
    def of(cls, folder: Folder) -> "SolanaSetup":
        """Return what an installation wants; keys in the environment go before its own."""
        keys = keys_of(folder)
        seed, signer = key_in_use(keys, "RELAYER_SEED"), key_in_use(keys, "POLICY_SIGNER_SOLANA_KEY")
        return cls(
            deployer=Keypair.from_seed(bytes.fromhex(keys["EVM_DEPLOYER_KEY"])),
            policy_signer=Keypair.from_seed(signer).pubkey(),
            owner=_owner(keys),
            relayer=Keypair.from_seed_and_derivation_path(seed, "m/44'/501'/0'/0'"),
            done_file=folder.path / "solana-localnet/prepared",
        )

    @property
    def escrow(self) -> Pubkey:
        """The escrow of the older token program; that of the newer one follows from the same keys."""
        return self._multisig(TOKEN_PROGRAM_ID)

    @property
    def tokens(self) -> dict[str, Pubkey]:
        """The mints by asset, but for SOL, whose mint is the same everywhere."""
        owner = self.deployer.pubkey()
        return {asset: Pubkey.create_with_seed(owner, asset, program) for asset, program in TOKEN_PROGRAMS.items()}

    def ensure(self, url: str, progress: Callable[[str], None]) -> None:
        """Make what is missing. Returns when it is final on the chain. Raises `LocalnetError`."""
        chain = NewestState(url)
        if missing := list(self._missing(chain)):
            progress("making the mints and the escrow of the Solana chain")
            send(url, self.deployer, missing)
            self.done_file.write_text(json.dumps({"firstBlock": 1 + chain.slot()}))

    @property
    def variables(self) -> dict[str, str]:
        """What the settings are told of the chain."""
        return {
            "CHAIN_SOLANA_LOCALNET_ESCROW": str(self.escrow),
            "CHAIN_SOLANA_LOCALNET_OWNER": str(self.owner),
            "CHAIN_SOLANA_LOCALNET_FIRST_BLOCK": str(self.first_block),
            "CHAIN_SOLANA_LOCALNET_TOKENS": ",".join(f"{asset}={mint}" for asset, mint in self.tokens.items()),
        }

    @property
    def first_block(self) -> int:
        """The slot from which on the escrow gets deposits: the money it was made with is none."""
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            return int(json.loads(self.done_file.read_text())["firstBlock"])
        return 0

    def _missing(self, chain: NewestState) -> Iterator[Step]:
        deployer, relayer = self.deployer.pubkey(), self.relayer.pubkey()
        if chain.lamports(relayer) < _RELAYER_MINIMUM_LAMPORTS:
            yield Step([_payment(deployer, relayer, _RELAYER_LAMPORTS)])
        for asset, mint in self.tokens.items():
            if not chain.lamports(mint):
                program = TOKEN_PROGRAMS[asset]
                length, final_length = mint_bytes(program)
                account = self._account(program, self.deployer, asset, space=length, lamports=chain.rent(final_length))
                yield Step([account, *initialise(mint, program, deployer)])
        for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID):
            if not chain.lamports(self._multisig(program)):
                yield self._new_multisig(program, chain.rent(MULTISIG_LEN))
        for asset, mint in self.tokens.items():
            for owner in (self._multisig(TOKEN_PROGRAMS[asset]), deployer):
                if not chain.lamports(get_associated_token_address(owner, mint, TOKEN_PROGRAMS[asset])):
                    yield self._funded(owner, mint, TOKEN_PROGRAMS[asset])
        if not chain.lamports(get_associated_token_address(self.escrow, WRAPPED_SOL_MINT)):
            yield self._wrapped()

    def _multisig(self, program: Pubkey) -> Pubkey:
        return Pubkey.create_with_seed(self.relayer.pubkey(), self._seed, program)

    @property
    def _signers(self) -> list[Pubkey]:
        return [self.relayer.pubkey(), self.policy_signer, self.owner]

    @property
    def _seed(self) -> str:
        """Name policy signer and owner, as `chains.solana.derivation` does."""
        return str(Pubkey(hashlib.sha256(bytes(self.policy_signer) + bytes(self.owner)).digest()))[:_SEED_LENGTH]

    def _account(self, owner: Pubkey, base: Keypair, seed: str, *, space: int, lamports: int) -> Instruction:
        return create_account_with_seed(
            CreateAccountWithSeedParams(
                from_pubkey=self.deployer.pubkey(),
                to_pubkey=Pubkey.create_with_seed(base.pubkey(), seed, owner),
                base=base.pubkey(),
                seed=seed,
                lamports=lamports,
                space=space,
                owner=owner,
            )
        )

    def _new_multisig(self, program: Pubkey, lamports: int) -> Step:
        account = self._account(program, self.relayer, self._seed, space=MULTISIG_LEN, lamports=lamports)
        of_three = InitializeMultisig2Params(
            program_id=program, multisig=self._multisig(program), m=_SIGNATURES, signers=self._signers
        )
        return Step([account, initialize_multisig2(of_three)], (self.relayer,))

    def _funded(self, owner: Pubkey, mint: Pubkey, program: Pubkey) -> Step:
        """Make a token account with money in it, in one transaction: where it exists, it was funded."""
        deployer, address = self.deployer.pubkey(), get_associated_token_address(owner, mint, program)
        minted = MintToCheckedParams(
            program_id=program,
            mint=mint,
            dest=address,
            mint_authority=deployer,
            amount=_FUNDS_ATOMIC,
            decimals=DECIMALS,
        )
        made = create_idempotent_associated_token_account(deployer, owner, mint, program)
        return Step([made, mint_to_checked(minted)])

    def _wrapped(self) -> Step:
        deployer, address = self.deployer.pubkey(), get_associated_token_address(self.escrow, WRAPPED_SOL_MINT)
        return Step(
            [
                create_idempotent_associated_token_account(deployer, self.escrow, WRAPPED_SOL_MINT),
                _payment(deployer, address, _ESCROW_LAMPORTS),
                sync_native(SyncNativeParams(program_id=TOKEN_PROGRAM_ID, account=address)),
            ]
        )


def _payment(source: Pubkey, destination: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=source, to_pubkey=destination, lamports=lamports))


def _owner(keys: dict[str, Any]) -> Pubkey:
    """Return the owner that the environment names, or our own."""
    with suppress(ValueError):
        return Pubkey.from_string(os.environ.get("CHAIN_SOLANA_LOCALNET_OWNER", ""))
    return Keypair.from_seed(bytes.fromhex(keys["SOLANA_OWNER_KEY"])).pubkey()
