"""What the chain itself says, asked of the node directly: every payment and every deposit of the escrow."""

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode
from eth_utils.crypto import keccak

from payments.models import Payment
from tests.chains import escrow, rpc
from tests.crash.world import World

_PAID = "0x" + keccak(text="Paid(bytes32,address,address,uint256)").hex()
_DEPOSITED = "0x" + keccak(text="Deposited(address,address,string,uint256)").hex()


@dataclass(frozen=True, slots=True)
class Paid:
    """One `Paid` event: what, to whom (lower case), in base units of which token (lower case)."""

    payment_id: str
    tx: str
    token: str
    recipient: str
    units: int


@dataclass(frozen=True, slots=True)
class Deposited:
    """One `Deposited` event, in base units."""

    tx: str
    log_index: int
    agent: str
    units: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The world at the end, what the chain says then, and what the escrow held at the start (base units)."""

    world: World
    paid: list[Paid]
    deposited: list[Deposited]
    payments: dict[str, Payment]
    held_before: int

    @classmethod
    def collect(cls, world: World, held_before: int) -> "Evidence":
        payments = {payment.pk: payment for payment in Payment.objects.all()}
        return cls(world, read_paid(), read_deposited(), payments, held_before)


def read_paid() -> list[Paid]:
    """Read all payments of the escrow."""
    return [
        Paid(
            payment_id=bytes.fromhex(log["topics"][1][2:]).rstrip(b"\0").decode(),
            tx=log["transactionHash"],
            token="0x" + log["topics"][2][-40:],
            recipient="0x" + log["topics"][3][-40:],
            units=int(log["data"], 16),
        )
        for log in _events(_PAID)
    ]


def read_deposited() -> list[Deposited]:
    """Read all deposits into the escrow."""
    found = []
    for log in _events(_DEPOSITED):
        agent, units = decode(["string", "uint256"], bytes.fromhex(log["data"][2:]))
        found.append(Deposited(log["transactionHash"], int(log["logIndex"], 16), agent, units))
    return found


def _events(topic: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    # In pieces: the node returns 10,000 events at most.
    last = int(rpc("eth_blockNumber"), 16)
    for first in range(0, last + 1, 100):
        wanted = {"address": escrow(), "topics": [topic], "fromBlock": hex(first), "toBlock": hex(first + 99)}
        found += rpc("eth_getLogs", wanted)
    return found
