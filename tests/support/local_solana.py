"""The embedded Solana chain."""

import base64
from typing import Any

import base58
from django.conf import settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import get_associated_token_address

from chains.solana.derivation import EscrowSigners
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from policy.signer import local_signer
from tests.support.local_chain import Localnet, Transfer
from tests.support.local_ids import SOLANA_LOCALNET


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
        assert [base58.b58decode(memo) for memo in memos] == [payment_id.encode()], "it is not a lone payment"
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
