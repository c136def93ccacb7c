"""An escrow of two multisigs with mints of its own on any Solana node."""

import base64
import itertools
import os
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from solders.compute_budget import set_compute_unit_limit
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountWithSeedParams, TransferParams, create_account_with_seed, transfer
from solders.transaction import Transaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    freeze_account,
    get_associated_token_address,
    mint_to_checked,
    sync_native,
    transfer_checked,
)
from spl.token.models import FreezeAccountParams, MintToCheckedParams, SyncNativeParams, TransferCheckedParams

from chains.catalogue import NATIVE_MINT, Chain, ServedChain, Vm
from chains.port import MadeDeposit, Submitter
from chains.rpc.nodes import Nodes
from chains.solana.adapter import SolanaChain
from chains.solana.derivation import EscrowSigners, relayer_keypair
from foundation.kernel.assets import Asset
from owner.solana.deployment import Deployer
from policy.signer import LocalSigner
from tests.chains.adapter.deployment import FUNDS_UNITS, Deployment
from tests.support.fates import ABSENT
from workshop.embedded.solana_mints import initialise, mint_bytes

_PROGRAMS = {Asset.SOL: TOKEN_PROGRAM_ID, Asset.USDC: TOKEN_PROGRAM_ID, Asset.PYUSD: TOKEN_2022_PROGRAM_ID}
VALIDITY_BLOCKS = 150
_SOL = 10**9
_UNITS = 200_000
_CONFIRMED = {"commitment": "confirmed"}


class SolanaDeployment(Deployment):
    """The owner of everything is the mints' authority, and knows the keys of relayer and policy signer."""

    assets = (Asset.SOL, Asset.USDC, Asset.PYUSD)
    untouched = ABSENT
    mines_by = "dev_nextBlock"

    def __init__(self, url: str, funded_key: str, solana_key: bytes | None = None) -> None:
        """Fund an owner of one's own with the key (hex) of an account that has plenty; `solana_key` co-signs."""
        secret = solana_key or os.urandom(32)
        super().__init__(url, LocalSigner(os.urandom(32), os.urandom(32), secret))
        self._funder, self._policy_signer = Keypair.from_seed(bytes.fromhex(funded_key)), Keypair.from_seed(secret)
        self.owner, self._seed = Keypair(), os.urandom(64)
        self._relayer = relayer_keypair(self._seed, 0)
        self._signers = EscrowSigners.of(self._seed, self.signer.solana_address, str(Keypair().pubkey()))
        self._limits = itertools.count(_UNITS)
        self.give(self.owner.pubkey(), 3 * FUNDS_UNITS)
        self.give(self._relayer.pubkey(), 10 * _SOL)
        self.tokens = {asset: NATIVE_MINT if asset is Asset.SOL else self._make_mint(asset) for asset in self.assets}
        self.escrow = str(self._signers.escrow(TOKEN_PROGRAM_ID))
        Deployer(self._served, Nodes((url,)), self._relayer, self._signers, report=lambda _: None).deploy()
        self.transact(*(one for asset in self.assets for one in self._fund(asset, FUNDS_UNITS)))

    # --- The node -----------------------------------------------------------------------------------------------------
    @property
    def height(self) -> int:
        return int(self.rpc("getSlot", {"commitment": "processed"}))

    @property
    def owner_address(self) -> str:
        return str(self.owner.pubkey())

    @property
    def final_height(self) -> int:
        """What blockhashes expire by; it is less than the slot, as some slots have no block."""
        return int(self.rpc("getBlockHeight", {"commitment": "finalized"}))

    def confirmed_blockhash(self) -> str:
        """Read the newest blockhash that most of the chain stands by."""
        return str(self.rpc("getLatestBlockhash", _CONFIRMED)["value"]["blockhash"])

    def advance(self, blocks: int) -> None:
        """Return when so many blocks more are final."""
        wanted = self.final_height + blocks
        self._post("dev_advance", blocks)
        self.wait(lambda: self.final_height >= wanted or None)

    @cached_property
    def reference(self) -> str:
        return str(self.rpc("getGenesisHash"))[:32]

    def adapter(self) -> SolanaChain:
        return SolanaChain.of(self._served, self._seed, self._signers)

    @property
    def _served(self) -> ServedChain:
        chain = Chain(f"solana:{self.reference}", ("test",), Vm.SOLANA, is_test=True)
        return ServedChain(chain, (self.url,), self.escrow, self.tokens, owner=str(self._signers.owner))

    # --- Accounts -----------------------------------------------------------------------------------------------------
    def new_address(self) -> str:
        return str(Keypair().pubkey())

    def balance_of(self, owner: str, asset: Asset = Asset.USDC) -> int:
        if asset is Asset.SOL:
            return int(self.rpc("getBalance", owner, {"commitment": "processed"})["value"])
        return self._tokens_in(self.account_of(owner, asset))

    def held(self, asset: Asset = Asset.USDC) -> int:
        vault = self.vault(asset)
        if asset is not Asset.SOL:
            return self._tokens_in(vault)
        rent = int(self.rpc("getMinimumBalanceForRentExemption", 165))
        return self.balance_of(str(vault), Asset.SOL) - rent

    def gas_money(self, address: str) -> Decimal:
        return Decimal(self.balance_of(address, Asset.SOL)).scaleb(-9)

    def lost_block(self) -> tuple[int, str]:
        slots = range(max(0, self.height - 100), self.height)
        there = set(self.rpc("getBlocks", slots.start, slots.stop - 1, _CONFIRMED))
        lost = next(slot for slot in slots if slot not in there)
        return lost, str(lost)

    def vault(self, asset: Asset) -> Pubkey:
        """Derive where the escrow holds an asset."""
        return self.account_of(self._multisig(asset), asset)

    def new_frozen_address(self, asset: Asset) -> str:
        """Make an address whose account of a token is frozen by the token's issuer."""
        holder, program, mint = Keypair().pubkey(), _PROGRAMS[asset], self._mint(asset)
        account = self.account_of(holder, asset)
        frozen = FreezeAccountParams(program_id=program, account=account, mint=mint, authority=self.owner.pubkey())
        made = create_idempotent_associated_token_account(self.owner.pubkey(), holder, mint, program)
        self.transact(made, freeze_account(frozen))
        return str(holder)

    def deposit(self, *deposits: tuple[Asset, bytes, int]) -> list[MadeDeposit]:
        return [self.deposit_named(asset, units, text) for asset, text, units in deposits]

    def deposit_named(self, asset: Asset, units: int, *names: bytes) -> MadeDeposit:
        """Deposit for whom each of these texts names."""
        memos = (Instruction(MEMO_PROGRAM_ID, name, []) for name in names)
        return self.transact(*self._fund(asset, units), *memos)

    def give(self, to: Pubkey | str, lamports: int) -> MadeDeposit:
        """Transfer lamports, and say nothing."""
        recipient = Pubkey.from_string(to) if isinstance(to, str) else to
        payment = TransferParams(from_pubkey=self._funder.pubkey(), to_pubkey=recipient, lamports=lamports)
        return self.transact(transfer(payment), by=self._funder)

    def withdraw(self, units: int, asset: Asset = Asset.USDC) -> None:
        relayer, policy_signer, owner = self._relayer, self._policy_signer, self.owner.pubkey()
        program, mint = _PROGRAMS[asset], self._mint(asset)
        taken = TransferCheckedParams(
            program_id=program, source=self.vault(asset), mint=mint, dest=self.account_of(owner, asset),
            owner=self._multisig(asset), amount=units, decimals=asset.decimals,
            signers=[relayer.pubkey(), policy_signer.pubkey()],
        )  # fmt: skip
        made = create_idempotent_associated_token_account(owner, owner, mint, program)
        self.transact(made, transfer_checked(taken), signers=(relayer, policy_signer))

    def _fund(self, asset: Asset, units: int) -> list[Instruction]:
        """Give the escrow so much of an asset, without a word."""
        owner, vault, program = self.owner.pubkey(), self.vault(asset), _PROGRAMS[asset]
        if asset is Asset.SOL:
            lamports = TransferParams(from_pubkey=owner, to_pubkey=vault, lamports=units)
            return [transfer(lamports), sync_native(SyncNativeParams(program_id=program, account=vault))]
        minted = MintToCheckedParams(
            program_id=program, mint=self._mint(asset), dest=vault, mint_authority=owner, amount=units,
            decimals=asset.decimals,
        )  # fmt: skip
        return [mint_to_checked(minted)]

    def _make_mint(self, asset: Asset) -> str:
        owner, program = self.owner.pubkey(), _PROGRAMS[asset]
        mint = Pubkey.create_with_seed(owner, asset, program)
        length, final_length = mint_bytes(program)
        account = CreateAccountWithSeedParams(
            from_pubkey=owner, to_pubkey=mint, base=owner, seed=asset, space=length, owner=program,
            lamports=int(self.rpc("getMinimumBalanceForRentExemption", final_length)),
        )  # fmt: skip
        self.transact(create_account_with_seed(account), *initialise(mint, program, owner))
        return str(mint)

    def _multisig(self, asset: Asset) -> Pubkey:
        return self._signers.escrow(_PROGRAMS[asset])

    def _mint(self, asset: Asset) -> Pubkey:
        return Pubkey.from_string(self.tokens[asset])

    def account_of(self, owner: Pubkey | str, asset: Asset) -> Pubkey:
        """Derive where somebody holds an asset."""
        holder = Pubkey.from_string(owner) if isinstance(owner, str) else owner
        return get_associated_token_address(holder, self._mint(asset), _PROGRAMS[asset])

    def _tokens_in(self, account: Pubkey) -> int:
        found = self.rpc("getAccountInfo", str(account), {"commitment": "processed", "encoding": "base64"})["value"]
        # Behind mint and owner.
        return 0 if found is None else int.from_bytes(base64.b64decode(found["data"][0])[64:72], "little")

    def transact(
        self, *instructions: Instruction, by: Keypair | None = None, signers: tuple[Keypair, ...] = ()
    ) -> MadeDeposit:
        """Have a transaction of the owner, or of somebody else, confirmed; returns where it is."""
        payer = by or self.owner
        latest = self.confirmed_blockhash()
        # Without a number of its own one like another would be the same transaction.
        limit = set_compute_unit_limit(next(self._limits))
        message = Message.new_with_blockhash([limit, *instructions], payer.pubkey(), Hash.from_string(latest))
        transaction = Transaction([payer, *signers], message, message.recent_blockhash)
        options = {"encoding": "base64", "preflightCommitment": "confirmed"}
        tx = self.rpc("sendTransaction", base64.b64encode(bytes(transaction)).decode(), options)
        status = self.wait(partial(self._confirmed, tx))
        assert status["err"] is None, status
        return MadeDeposit(tx, status["slot"])

    def _confirmed(self, tx: str) -> Any:
        (status,) = self.rpc("getSignatureStatuses", [tx])["value"]
        return status if status and status["confirmationStatus"] != "processed" else None

    # --- Paying -------------------------------------------------------------------------------------------------------
    def relayers(self, count: int = 1) -> list[Submitter]:
        # An escrow knows one.
        return [Submitter(0, str(self._relayer.pubkey()), None)]

    def turns(self, count: int) -> list[Submitter]:
        return self.relayers() * count
