"""Deposit as a customer's wallet does, and give SOL away, with a key of our own: for test networks."""

import time
from collections.abc import Callable, Mapping
from decimal import Decimal

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.memo.instructions import create_memo
from spl.memo.models import MemoParams
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    mint_to_checked,
    sync_native,
    transfer_checked,
)
from spl.token.models import MintToCheckedParams, SyncNativeParams, TransferCheckedParams

from chains.port import ChainUnavailable, MadeDeposit
from chains.rpc.transport import RpcError
from chains.solana.adapter import SolanaChain
from chains.solana.answers import Account, read_statuses, statuses_calls
from chains.solana.configuration_check import find_wrong_chain_nodes
from chains.solana.derivation import associated_account
from chains.solana.inspection import read_genesis_hashes
from chains.solana.token_accounts import EscrowAccount, is_native, read_authority, read_token_account
from chains.solana.withdrawing import FEE_LAMPORTS
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, format_amount, from_base_units, to_base_units
from owner.solana.sending import Sender

# In addition to the fee: the rest that stays in the account, and the rent of its own token account.
_SPARE_LAMPORTS = 5_000_000
_LOOKS, _PAUSE_S = 60, 1


class Wallet:
    """An account with SOL that deposits into a chain's escrow. `report` gets progress messages, never a secret."""

    def __init__(self, chain: SolanaChain, secret: bytes, report: Callable[[str], None]) -> None:
        self._chain = chain
        self._sender = Sender(chain.served.chain, chain.nodes, Keypair.from_seed(secret), report)
        self._report = report
        self._key = self._sender.key

    def deposit(self, agent: str, *, asset: Asset, amount: Decimal) -> MadeDeposit:
        """Deposit for an agent, and wait until it is confirmed. Missing tokens are minted if this key may mint them.

        Raises:
            OperationRefused: the nodes are of another chain, or the account has too little.
            ChainUnavailable: no node answers. If a transaction was reported, look for it before another try.
        """
        self._check_chain()
        alias = self._chain.served.chain.alias
        if asset not in self._chain.served.tokens:
            raise OperationRefused(f"{asset} is not served on {alias}.")
        account = self._chain.escrow.find_accounts().get(asset)
        if account is None:
            raise OperationRefused(f"{asset} cannot be held on {alias}: see manage.py chains.")
        try:
            units = to_base_units(amount, asset)
        except AmountError as error:
            raise OperationRefused(str(error)) from error
        self._check_escrow(account)
        spending = self._spend_sol(account, units) if is_native(account.mint) else self._spend(account, units)
        memo = create_memo(MemoParams(program_id=MEMO_PROGRAM_ID, signer=self._key, message=agent.encode()))
        self._report("Depositing ...")
        tx = self._sender.send([*spending, memo])
        return MadeDeposit(tx, self._find_slot(tx))

    def give(self, amounts: Mapping[str, Decimal]) -> dict[str, str]:
        """Send some SOL to each address, all in one transaction; returns its id by address.

        Raises:
            OperationRefused, ChainUnavailable: as `deposit` does.
        """
        self._check_chain()
        units = {address: to_base_units(coins, Asset.SOL) for address, coins in amounts.items()}
        self._provide_sol(sum(units.values()))
        tx = self._sender.send(
            [
                transfer(
                    TransferParams(from_pubkey=self._key, to_pubkey=Pubkey.from_string(address), lamports=lamports)
                )
                for address, lamports in units.items()
            ]
        )
        return dict.fromkeys(amounts, tx)

    def _check_chain(self) -> None:
        hashes = read_genesis_hashes(self._chain.inspector.singles)
        if wrong_nodes := find_wrong_chain_nodes(hashes, self._chain.served.chain.reference):
            raise OperationRefused(" ".join(wrong_nodes))
        if not any(hashes):
            raise ChainUnavailable("No node answers.")

    def _check_escrow(self, account: EscrowAccount) -> None:
        """Check that the escrow's account exists: a transfer to an address without an account is lost."""
        address = Pubkey.from_string(account.address)
        found = self._sender.find_accounts([address])[address]
        if found is None or found.owner != account.program:
            raise OperationRefused(f"The escrow has no account for {account.asset}: manage.py deploy_escrow makes it.")

    def _spend_sol(self, account: EscrowAccount, lamports: int) -> list[Instruction]:
        self._provide_sol(lamports)
        to, program = Pubkey.from_string(account.address), Pubkey.from_string(account.program)
        return [
            transfer(TransferParams(from_pubkey=self._key, to_pubkey=to, lamports=lamports)),
            sync_native(SyncNativeParams(program_id=program, account=to)),
        ]

    def _spend(self, account: EscrowAccount, units: int) -> list[Instruction]:
        """Return the instructions that mint missing tokens into the wallet's account, and transfer from it."""
        self._provide_sol(0)
        mint, program = Pubkey.from_string(account.mint), Pubkey.from_string(account.program)
        own = associated_account(self._key, mint, program)
        found = self._sender.find_accounts([own, mint])
        held, decimals = _held(found[own]), account.asset.decimals
        preparations = [create_idempotent_associated_token_account(self._key, self._key, mint, program)]
        if held < units:
            if read_authority(found[mint]) != str(self._key):
                had = format_amount(from_base_units(held, account.asset))
                raise OperationRefused(f"{self._key} has {had} {account.asset}, and may not mint it.")
            self._report("Minting test tokens ...")
            preparations.append(
                mint_to_checked(
                    MintToCheckedParams(
                        program_id=program,
                        mint=mint,
                        dest=own,
                        mint_authority=self._key,
                        amount=units - held,
                        decimals=decimals,
                    )
                )
            )
        to = Pubkey.from_string(account.address)
        return [
            *preparations,
            transfer_checked(
                TransferCheckedParams(
                    program_id=program,
                    source=own,
                    mint=mint,
                    dest=to,
                    owner=self._key,
                    amount=units,
                    decimals=decimals,
                )
            ),
        ]

    def _provide_sol(self, lamports: int) -> None:
        """Check that the account can pay a deposit and its costs; ask the test network for missing SOL."""
        needed = lamports + FEE_LAMPORTS + _SPARE_LAMPORTS
        held = self._find_lamports()
        if held >= needed:
            return
        self._report("Asking the network for SOL ...")
        (answer,) = self._chain.nodes.ask([("requestAirdrop", str(self._key), needed - held)])
        for _ in range(_LOOKS if not isinstance(answer, RpcError) else 0):
            if self._find_lamports() >= needed:
                return
            time.sleep(_PAUSE_S)
        has, wants = (format_amount(from_base_units(one, Asset.SOL)) for one in (held, needed))
        raise OperationRefused(f"{self._key} has {has} SOL, may need {wants}, and the network gave it none.")

    def _find_lamports(self) -> int:
        account = self._sender.find_accounts([self._key])[self._key]
        return 0 if account is None else account.lamports

    def _find_slot(self, tx: str) -> int:
        """Find the slot of a transaction that a node knows."""
        replies = self._chain.nodes.read_each(statuses_calls([tx]), lambda answers: read_statuses(answers, [tx])[tx][1])
        slots = [status.slot for status in replies if status is not None]
        if not slots:
            raise ChainUnavailable(f"No node knows {tx} any more: look for it before another try.")
        return slots[0]


def _held(account: Account | None) -> int:
    return 0 if account is None else read_token_account(account).units
