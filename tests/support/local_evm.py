"""The embedded EVM chain."""

from django.conf import settings

from foundation.kernel.assets import Asset
from payments.models import Payment
from tests.support.evm_escrow import TRANSFER, call
from tests.support.factories import new_address
from tests.support.local_chain import Localnet, Transfer
from tests.support.local_ids import LOCALNET


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
