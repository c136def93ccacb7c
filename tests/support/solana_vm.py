"""Solana's virtual machine in this process, with an escrow, and what is needed to pay from it there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from solders.account import Account
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction, VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID

from chains.catalogue import Chain, ServedChain, Vm
from chains.port import Order, SignedTransaction, Submitter, TransactionPlan
from chains.solana.derivation import (
    NATIVE_MINT,
    EscrowSigners,
    associated_account,
    relayer_keypair,
)
from chains.solana.mints import read_mint
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from policy.signer import LocalSigner

SEED = bytes(range(64))
SIGNER_KEY, OWNER_KEY = bytes(range(100, 132)), bytes(range(200, 232))
PAYMENT_ID = "pay_01m7w7cq32s9ezcpf00jhcevrn"
NOW = datetime(2026, 5, 14, tzinfo=UTC)
SOL = 10**9
FEE = 10_000
_TOKEN_ACCOUNT_TYPE, _MINT_TYPE = b"\2", b"\1"
_TYPE_AT = 165
# What each extension of a mint asks of its token accounts: number and value.
_OF_ACCOUNTS = {1: (2, bytes(8)), 9: (13, b""), 14: (15, b"\0"), 26: (27, b"")}
_IMMUTABLE_OWNER = (7, b"")

Extensions = dict[int, bytes]
# Those of PYUSD on the main network: authority to close, permanent delegate, fee of nothing, confidential transfers
# and their fee, hook without a program, pointer to metadata.
ISSUER = bytes(range(1, 33))
PYUSD: Extensions = {
    3: ISSUER,
    12: ISSUER,
    1: ISSUER + ISSUER + bytes(8 + 18 + 18),
    4: ISSUER + bytes(1 + 32),
    16: ISSUER + bytes(32 + 1 + 64),
    14: ISSUER + bytes(32),
    18: ISSUER + ISSUER,
}


def layout_extensions(kind: bytes, extensions: Extensions) -> bytes:
    """Lay out what stands after the first 165 bytes of a mint or a token account."""
    parts = [
        number.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value for number, value in extensions.items()
    ]
    return kind + b"".join(parts)


def mint_data(decimals: int = 6, extensions: Extensions | None = None, *, is_initialized: bool = True) -> bytes:
    """Lay out a mint whose authorities are the issuer's."""
    authority = (1).to_bytes(4, "little") + ISSUER
    data = authority + (10**15).to_bytes(8, "little") + bytes([decimals, is_initialized]) + authority
    return data if extensions is None else data.ljust(_TYPE_AT, b"\0") + layout_extensions(_MINT_TYPE, extensions)


def token_data(mint: Pubkey, owner: Pubkey, units: int, extensions: Extensions | None, native: int | None) -> bytes:
    """Lay out a token account; `native` is the reserve of one that holds SOL."""
    is_native = bytes(4 + 8) if native is None else (1).to_bytes(4, "little") + native.to_bytes(8, "little")
    data = bytes(mint) + bytes(owner) + units.to_bytes(8, "little") + bytes(36) + b"\1" + is_native + bytes(8 + 36)
    if extensions is None:
        return data
    own = dict([_IMMUTABLE_OWNER, *(_OF_ACCOUNTS[number] for number in extensions if number in _OF_ACCOUNTS)])
    return data + layout_extensions(_TOKEN_ACCOUNT_TYPE, own)


@dataclass
class Bench:
    """An escrow of 100 SOL, 100 USDC and 100 PYUSD, whose relayer has 10 SOL."""

    extensions: Extensions = field(default_factory=lambda: dict(PYUSD))
    vm: LiteSVM = field(default_factory=lambda: LiteSVM().with_mainnet_features())
    relayer: Keypair = field(default_factory=lambda: relayer_keypair(SEED, 0))
    policy: Keypair = field(default_factory=lambda: Keypair.from_seed(SIGNER_KEY))
    owner: Keypair = field(default_factory=lambda: Keypair.from_seed(OWNER_KEY))
    signer: LocalSigner = field(default_factory=lambda: LocalSigner(SEED[:32], SEED[32:], SIGNER_KEY))

    def __post_init__(self) -> None:
        self.signers = EscrowSigners(self.relayer.pubkey(), self.policy.pubkey(), self.owner.pubkey())
        usdc, pyusd = Keypair().pubkey(), Keypair().pubkey()
        self.mints = {Asset.SOL: NATIVE_MINT, Asset.USDC: usdc, Asset.PYUSD: pyusd}
        self.put(NATIVE_MINT, mint_data(9), TOKEN_PROGRAM_ID)
        self.put(usdc, mint_data(), TOKEN_PROGRAM_ID)
        self.put(pyusd, mint_data(extensions=self.extensions), TOKEN_2022_PROGRAM_ID)
        for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID):
            self.put(self.escrow(program), self.signers.multisig_data, program)
        for asset in self.mints:
            self.fund(asset, self.escrow(self.program(asset)), 100 * 10**asset.decimals)
        self.vm.airdrop(self.relayer.pubkey(), 10 * SOL)
        self.chain = SolanaPreparer(self.served(), SEED, self.signers)
        self.submitter = Submitter(0, str(self.relayer.pubkey()), None)

    def served(self, **changes: Any) -> ServedChain:
        facts = {
            "chain": Chain("solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa", ("vm",), Vm.SOLANA),
            "rpc_urls": (),
            "escrow": str(self.escrow(TOKEN_PROGRAM_ID)),
            "tokens": {asset: str(mint) for asset, mint in self.mints.items()},
            "owner": str(self.owner.pubkey()),
        }
        return ServedChain(**{**facts, **changes})

    # --- What is there ---
    def program(self, asset: Asset) -> Pubkey:
        return self.account(self.mints[asset]).owner

    def escrow(self, program: Pubkey) -> Pubkey:
        return self.signers.escrow(program)

    def where(self, asset: Asset, owner: Pubkey) -> Pubkey:
        return associated_account(owner, self.mints[asset], self.program(asset))

    def escrow_account(self, asset: Asset) -> Pubkey:
        return self.where(asset, self.escrow(self.program(asset)))

    def account(self, address: Pubkey) -> Account:
        account = self.vm.get_account(address)
        assert account is not None
        return account

    def units(self, asset: Asset, owner: Pubkey) -> int:
        """Count the base units of a token that somebody holds in the associated account."""
        account = self.vm.get_account(self.where(asset, owner))
        return int.from_bytes(account.data[64:72], "little") if account and account.data else 0

    def escrow_units(self, asset: Asset) -> int:
        return self.units(asset, self.escrow(self.program(asset)))

    def lamports(self, address: Pubkey) -> int:
        return self.vm.get_balance(address) or 0

    def rent(self, length: int) -> int:
        return self.vm.minimum_balance_for_rent_exemption(length)

    # --- What is put there ---
    def put(self, address: Pubkey, data: bytes, owner: Pubkey, lamports: int = 0) -> None:
        """Set an account that has its rent and so many lamports more."""
        self.vm.set_account(address, Account(self.rent(len(data)) + lamports, data, owner))

    def fund(self, asset: Asset, owner: Pubkey, units: int) -> None:
        is_sol, program = asset is Asset.SOL, self.program(asset)
        extensions = self.extensions if program == TOKEN_2022_PROGRAM_ID else None
        native = self.rent(_TYPE_AT) if is_sol else None
        data = token_data(self.mints[asset], owner, units, extensions, native)
        self.put(self.where(asset, owner), data, program, units if is_sol else 0)

    # --- What is done ---
    def state(self, **changes: Any) -> dict[str, Any]:
        return {
            "configuration": self.chain.configuration,
            "slot": 1_000,
            "blockhash": str(self.vm.latest_blockhash()),
            "lastValidBlockHeight": 1_100,
            "unitPriceMicroLamports": 0,
            "rentExempt": {"account": self.rent(0), "token": self.rent(_TYPE_AT)},
            "tokens": {asset: self.observed(asset) for asset in self.mints},
            **changes,
        }

    def observed(self, asset: Asset) -> dict[str, Any]:
        account = self.account(self.mints[asset])
        mint = read_mint(str(self.mints[asset]), str(account.owner), account.data, asset)
        return {"program": mint.program, "objection": mint.objection}

    def prepare(
        self, asset: Asset, amount: str, recipient: Pubkey, payment_id: str = PAYMENT_ID, **changes: Any
    ) -> SignedTransaction:
        """Sign a payment; `changes` are to what was observed of the chain."""
        order = Order(payment_id, asset, Decimal(amount), str(recipient))
        payee = {"lamports": self.lamports(recipient)}
        return self.chain.prepare(
            TransactionPlan.of_one(order, self.submitter, self.state(**changes), self.signer, payee), NOW
        )

    def land(self, signed: SignedTransaction) -> TransactionMetadata:
        """Execute what was signed, and see that it did what it should."""
        result = self.offer(signed.raw)
        assert isinstance(result, TransactionMetadata), result
        return result

    def offer(self, raw: bytes) -> TransactionMetadata | FailedTransactionMetadata:
        return self.vm.send_transaction(VersionedTransaction.from_bytes(raw))

    def pay(self, asset: Asset, amount: str, recipient: Pubkey, payment_id: str = PAYMENT_ID) -> TransactionMetadata:
        return self.land(self.prepare(asset, amount, recipient, payment_id))

    def run(
        self, instructions: Sequence[Instruction], *signers: Keypair
    ) -> TransactionMetadata | FailedTransactionMetadata:
        """Execute instructions in a transaction that the first of the signers pays for."""
        message = Message.new_with_blockhash(instructions, signers[0].pubkey(), self.vm.latest_blockhash())
        return self.vm.send_transaction(Transaction(list(signers), message, self.vm.latest_blockhash()))
