"""Send transactions of the deployer to the local Solana chain, and read what is there."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from workshop.localnet import rpc
from workshop.localnet.errors import LocalnetError
from workshop.localnet.solana.chain import FINALITY_BLOCKS

_NEWEST = {"commitment": "processed"}


@dataclass(frozen=True)
class Step:
    """A transaction that the deployer pays for; `signers` must sign it, too."""

    instructions: list[Instruction]
    signers: tuple[Keypair, ...] = ()


@dataclass(frozen=True)
class NewestState:
    """The newest state of the chain behind a URL."""

    url: str

    def lamports(self, address: Pubkey) -> int:
        return int(rpc.request(self.url, "getBalance", str(address), _NEWEST)["value"])

    def rent(self, length: int) -> int:
        return int(rpc.request(self.url, "getMinimumBalanceForRentExemption", length))

    def slot(self) -> int:
        return int(rpc.request(self.url, "getSlot", _NEWEST))


def send(url: str, deployer: Keypair, steps: Sequence[Step]) -> None:
    """Send the steps in order, make them final, and check that each succeeded. Raises `LocalnetError`."""
    newest = rpc.request(url, "getLatestBlockhash", _NEWEST)["value"]["blockhash"]
    # Each builds on those before: on its own it would fail a trial.
    options = {"encoding": "base64", "skipPreflight": True}
    signatures = [
        rpc.request(url, "sendTransaction", _signed(deployer, step, Hash.from_string(newest)), options)
        for step in steps
    ]
    rpc.request(url, "dev_nextBlock")
    rpc.request(url, "dev_advance", 2 * FINALITY_BLOCKS)
    statuses = rpc.request(url, "getSignatureStatuses", signatures)["value"]
    for signature, status in zip(signatures, statuses, strict=True):
        if status is None or status["err"] is not None:
            reason = "is in no block" if status is None else f"failed: {status['err']}"
            raise LocalnetError(f"the transaction {signature} on the local Solana chain {reason}")


def _signed(deployer: Keypair, step: Step, blockhash: Hash) -> str:
    message = MessageV0.try_compile(deployer.pubkey(), step.instructions, [], blockhash)
    transaction = VersionedTransaction(message, [deployer, *step.signers])
    return base64.b64encode(bytes(transaction)).decode()
