"""The embedded chains as anybody sees them, by plain JSON-RPC, with payments of the whole product on them.

Their mints, escrows and relayers are those that the settings name.
"""

import base64
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import base58
import requests
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import get_associated_token_address

from allowance.environment.keys import held_key
from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from chains.port import ChainAdapter
from chains.solana.derivation import EscrowSigners
from payments.lifecycle import OPEN_STATES, PaymentStatus
from payments.models import ChainState, DepositCursor, Payment, Settlement
from payments.reconciling.escrow_history import search_history
from payments.reconciling.watcher import observe
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from policy.signer import local_signer
from services.models import Service
from services.served_chains import served_chains
from tests.support.chains import LOCALNET, PATIENCE_S, SOLANA_LOCALNET, TRANSFER, call
from tests.support.factories import make_service, new_address


@dataclass(frozen=True, slots=True)
class Transfer:
    """What left the escrow in one transaction, in base units of a token (its contract or mint)."""

    token: str
    recipient: str
    units: int


class Localnet(ABC):
    """One embedded chain. `assets` are some of each kind that it pays with."""

    caip2: ClassVar[str]
    alias: ClassVar[str]
    assets: ClassVar[Sequence[Asset]]
    mines_by: ClassVar[str]
    # How many blocks nobody looks at where nothing changes: on some chains many pass until something is final.
    skipped: ClassVar[int] = 0

    def __init__(self) -> None:
        self._known: list[tuple[str, str]] = []

    # --- What differs -------------------------------------------------------------------------------------------------
    @abstractmethod
    def new_address(self) -> str:
        """Make an address that nobody used before."""

    @abstractmethod
    def as_written(self, address: str) -> str:
        """Write an address as the chain's own records have it."""

    @abstractmethod
    def balance_of(self, asset: Asset, owner: str) -> int:
        """Read what somebody has in the newest block, in base units."""

    @abstractmethod
    def held(self, asset: Asset) -> int:
        """Read what the escrow has in the newest block, in base units."""

    @abstractmethod
    def find_block(self, tx: str) -> int | None:
        """Find the block that has a transaction; None: none does."""

    @abstractmethod
    def succeeded(self, tx: str) -> bool:
        """Tell whether a transaction that is in a block did what it says."""

    @abstractmethod
    def transfers(self, tx: str, payment_id: str) -> list[Transfer]:
        """Read what a transaction that names a payment took out of the escrow, from its own record."""

    @abstractmethod
    def reorganise(self, block_number: int) -> bool:
        """Let a block and those on it vanish, with all that is in them; False: it is too late for that."""

    # --- The node -----------------------------------------------------------------------------------------------------
    def rpc(self, method: str, *params: Any) -> Any:
        body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = requests.post(settings.CHAINS[self.caip2].rpc_urls[0], json=body, timeout=30).json()
        assert "error" not in answer, answer
        return answer["result"]

    def mine(self) -> None:
        self.rpc(self.mines_by)

    def token(self, asset: Asset) -> str:
        return settings.CHAINS[self.caip2].tokens[asset]

    # --- The product --------------------------------------------------------------------------------------------------
    @property
    def adapter(self) -> ChainAdapter:
        return served_chains()[self.caip2]

    def make_service(self, asset: Asset = Asset.USDC) -> Service:
        return make_service(asset=asset, recipient=f"{self.alias}:{self.new_address()}")

    def observe(self) -> None:
        """Let the watcher look, which does not run in tests: some chains forget soon what is signed by.

        It compares the chain with the configuration each time, not once a minute: what one test does to an escrow is
        seen in that test, not by chance in the next one.
        """
        ChainState.objects.filter(chain=self.caip2).update(checked_at=None)
        self._look()

    def _look(self) -> None:
        observe(self.caip2, self.adapter)

    def begin(self) -> None:
        """Let the tests' database know of the chain's history from now on: what was before, another one knew."""
        newest, trail = self.adapter.find_finality().newest, self.adapter.deposits_trail
        while (final := self.adapter.find_finality().block_number - trail) < newest:
            self.mine()
        DepositCursor.objects.create(
            chain=self.caip2, escrow=self.adapter.escrow, block_number=final, moved_at=utc_now()
        )

    def send(self) -> int:
        return broadcast(self.caip2, self.adapter)

    def follow(self) -> int:
        """Do what the sweep and the watcher of deposits do; returns how many transactions came to an end."""
        ended = Settlement.objects.filter(chain=self.caip2).exclude(state__in=OPEN_STATES)
        before = ended.count()
        if self.adapter.nonces is not None:
            confirm(self.caip2, self.adapter)
        search_history(self.caip2, self.adapter)
        if self.adapter.nonces is None:
            confirm(self.caip2, self.adapter)
        resolve_unpaid(self.caip2, self.adapter)
        return ended.count() - before

    def include(self, payment: Payment) -> int:
        """Send a payment, whose newest transaction some block then has; returns the block's number."""
        tx = payment.settlements.latest("created_at").tx
        deadline = time.monotonic() + PATIENCE_S
        self.send()
        while (number := self.find_block(tx)) is None:
            assert time.monotonic() < deadline, "no block takes it"
            self.mine()
        return number

    def drain(self) -> None:
        """Send and follow all that is under way until nothing is."""
        deadline = time.monotonic() + PATIENCE_S
        approved = Payment.objects.filter(chain=self.caip2, status=PaymentStatus.APPROVED)
        look = self.observe
        while approved.exists() or Settlement.objects.filter(chain=self.caip2, state__in=OPEN_STATES).exists():
            assert time.monotonic() < deadline, "the chain does not come to an end"
            look()
            self.send()
            self.follow()
            self.go_on()
            look = self._look

    def go_on(self) -> None:
        """Make a block; several where nothing was different after the last one: no watcher looks at each."""
        known, self._known = self._known, self._under_way()
        self.mine()
        if known == self._known and self.skipped:
            self.advance(self.skipped)

    def advance(self, blocks: int) -> None:
        """Let so many blocks pass, whatever waits."""
        self.rpc("dev_advance", blocks)

    def _under_way(self) -> list[tuple[str, str]]:
        rows = Settlement.objects.filter(chain=self.caip2, state__in=OPEN_STATES)
        return list(rows.order_by("pk").values_list("pk", "state"))


class EvmLocalnet(Localnet):
    caip2 = LOCALNET
    alias = "evm-localnet"
    assets = (Asset.USDC, Asset.USDT, Asset.PYUSD, Asset.EURC)
    mines_by = "evm_mine"

    def new_address(self) -> str:
        return new_address()

    def as_written(self, address: str) -> str:
        return address.lower()

    def balance_of(self, asset: Asset, owner: str) -> int:
        wanted = {"to": self.token(asset), "data": call("balanceOf(address)", owner)}
        return int(self.rpc("eth_call", wanted, "latest"), 16)

    def held(self, asset: Asset) -> int:
        return self.balance_of(asset, self._escrow)

    def find_block(self, tx: str) -> int | None:
        receipt = self.rpc("eth_getTransactionReceipt", tx)
        return None if receipt is None else int(receipt["blockNumber"], 16)

    def succeeded(self, tx: str) -> bool:
        return bool(self.rpc("eth_getTransactionReceipt", tx)["status"] == "0x1")

    def transfers(self, tx: str, payment_id: str) -> list[Transfer]:
        receipt = self.rpc("eth_getTransactionReceipt", tx)
        assert receipt["to"].lower() == self._escrow.lower()
        assert self.is_settled(payment_id)
        logs = [log for log in receipt["logs"] if log["topics"][0] == TRANSFER]
        assert {log["topics"][1] for log in logs} == {"0x" + self._escrow.lower()[2:].rjust(64, "0")}
        return [Transfer(log["address"].lower(), "0x" + log["topics"][2][-40:], int(log["data"], 16)) for log in logs]

    def reorganise(self, block_number: int) -> bool:
        before = self._hash_of(block_number)
        depth = int(self.rpc("eth_blockNumber"), 16) - block_number + 1
        if depth < 2:
            self.rpc("anvil_reorg", hex(depth))
        # One more may have been made meanwhile: then only that one vanished.
        return self._hash_of(block_number) != before

    def token(self, asset: Asset) -> str:
        return super().token(asset).lower()

    def is_settled(self, payment_id: str) -> bool:
        """Ask the escrow whether it counts a payment as made."""
        word = bytes.fromhex(Payment.objects.get(pk=payment_id).escrow_id.removeprefix("0x"))
        wanted = {"to": self._escrow, "data": call("status(bytes32)", word)}
        return int(self.rpc("eth_call", wanted, "latest"), 16) == 1

    @property
    def _escrow(self) -> str:
        return settings.CHAINS[self.caip2].escrow

    def _hash_of(self, block_number: int) -> str:
        return str(self.rpc("eth_getBlockByNumber", hex(block_number), False)["hash"])


class SolanaLocalnet(Localnet):
    caip2 = SOLANA_LOCALNET
    alias = "solana-localnet"
    assets = (Asset.SOL, Asset.USDC, Asset.PYUSD, Asset.USDT, Asset.EURC)
    mines_by = "dev_nextBlock"
    skipped = 8

    def new_address(self) -> str:
        return str(Keypair().pubkey())

    def as_written(self, address: str) -> str:
        return address

    def balance_of(self, asset: Asset, owner: str) -> int:
        if asset is Asset.SOL:
            return int(self.rpc("getBalance", owner, _NEWEST)["value"])
        return self._tokens_in(self._account_of(Pubkey.from_string(owner), asset))

    def held(self, asset: Asset) -> int:
        if asset is not Asset.SOL:
            return self._tokens_in(self._vault(asset))
        rent = int(self.rpc("getMinimumBalanceForRentExemption", 165))
        return self.balance_of(asset, str(self._vault(asset))) - rent

    def find_block(self, tx: str) -> int | None:
        (status,) = self.rpc("getSignatureStatuses", [tx], {"searchTransactionHistory": True})["value"]
        return status["slot"] if status and status["confirmationStatus"] != "processed" else None

    def succeeded(self, tx: str) -> bool:
        return self._transaction(tx)["meta"]["err"] is None

    def transfers(self, tx: str, payment_id: str) -> list[Transfer]:
        found = self._transaction(tx)
        message = found["transaction"]["message"]
        keys = [Pubkey.from_string(key) for key in message["accountKeys"]]
        memos = [one["data"] for one in message["instructions"] if keys[one["programIdIndex"]] == MEMO_PROGRAM_ID]
        assert [base58.b58decode(memo) for memo in memos] == [payment_id.encode()]
        vaults = {self._vault(asset): asset for asset in self.assets}
        asset = next(vaults[key] for key in keys if key in vaults)
        changes = self._lamports(found) if asset is Asset.SOL else self._tokens(found)
        (vault, relayer) = (str(self._vault(asset)), str(keys[0]))
        gained = {key: units for key, units in changes.items() if key not in (vault, relayer) and units}
        assert sum(gained.values()) == -changes[vault]
        return [Transfer(self.token(asset), key, units) for key, units in gained.items()]

    def reorganise(self, block_number: int) -> bool:
        before = self._hash_of(block_number)
        newest, final = (self.rpc("getSlot", {"commitment": name}) for name in ("processed", "finalized"))
        blocks = self.rpc("getBlocks", block_number, newest, {"commitment": "confirmed"})
        # The newest is not in the list: most of the chain does not stand by it yet. By now one more may be final.
        if final + 1 < block_number:
            self.rpc("dev_reorganise", len(blocks) + 1)
        # One more may have been made meanwhile: then this one may be below all that vanished.
        return self._hash_of(block_number) != before

    @property
    def final_height(self) -> int:
        return int(self.rpc("getBlockHeight", {"commitment": "finalized"}))

    def _lamports(self, found: Any) -> dict[str, int]:
        meta, keys = found["meta"], found["transaction"]["message"]["accountKeys"]
        changes = zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
        return {key: after - before for key, before, after in changes}

    def _tokens(self, found: Any) -> dict[str, int]:
        """Read by how much each owner has more, but for the escrow, by its account."""
        changes: dict[str, int] = {}
        keys = found["transaction"]["message"]["accountKeys"]
        for sign, when in ((-1, "pre"), (1, "post")):
            for one in found["meta"][f"{when}TokenBalances"]:
                key = keys[one["accountIndex"]]
                name = key if key in map(str, map(self._vault, self.assets)) else one["owner"]
                changes[name] = changes.get(name, 0) + sign * int(one["uiTokenAmount"]["amount"])
        return changes

    def _hash_of(self, block_number: int) -> str:
        config = {"commitment": "confirmed", "transactionDetails": "none"}
        return str(self.rpc("getBlock", block_number, config)["blockhash"])

    def _transaction(self, tx: str) -> Any:
        return self.rpc("getTransaction", tx, {"commitment": "confirmed", "maxSupportedTransactionVersion": 0})

    def _vault(self, asset: Asset) -> Pubkey:
        owner = settings.CHAINS[self.caip2].owner or ""
        signers = EscrowSigners.of(held_key("RELAYER_SEED"), local_signer().solana_address, owner)
        return self._account_of(signers.escrow(_program(asset)), asset)

    def _account_of(self, owner: Pubkey, asset: Asset) -> Pubkey:
        return get_associated_token_address(owner, Pubkey.from_string(self.token(asset)), _program(asset))

    def _tokens_in(self, account: Pubkey) -> int:
        found = self.rpc("getAccountInfo", str(account), _NEWEST)["value"]
        # Behind mint and owner.
        return 0 if found is None else int.from_bytes(base64.b64decode(found["data"][0])[64:72], "little")


_NEWEST = {"commitment": "processed", "encoding": "base64"}


def _program(asset: Asset) -> Pubkey:
    return TOKEN_2022_PROGRAM_ID if asset is Asset.PYUSD else TOKEN_PROGRAM_ID


EVM, SOLANA = EvmLocalnet(), SolanaLocalnet()
LOCALNETS: Sequence[Localnet] = (EVM, SOLANA)
