"""The thief on the EVM chain: it has every relayer's key, and sees what waits for a block and what is in one.

It cannot sign a payment: that takes the policy signer. All it can do is submit what was signed, by whom, when, how
often and whether at all.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eth_account import Account
from eth_account.hdaccount import key_from_seed
from eth_utils.crypto import keccak

from tests.crash.thief import tally
from tests.crash.thief.node import Node, Refused
from tests.crash.thief.tally import Tally

_PAY = "0x" + keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4].hex()
_VOID = "0x" + keccak(text="void(bytes32,bytes)")[:4].hex()
_RELAYERS = "0x" + keccak(text="relayers(address)")[:4].hex()
_STATUS = "0x" + keccak(text="status(bytes32)")[:4].hex()
_WORD = 64
_MOST_RELAYERS = 8
_GAS = 300_000
_GWEI = 10**9
_TIP, _MAX_FEE = 5 * _GWEI, 100 * _GWEI
# Nodes want a tenth more before they put one transaction in another's place.
_OUTBID_PERCENT = 130
# So many are withheld at a time: one to be submitted before its deadline, one after it.
_WITHHELD_AT_ONCE = 2
_SHORTLY_S, _LONG_S = 10, 12
_PAID, _VOIDED = 1, 2
_MOST_BLOCKS = 32


@dataclass(frozen=True, slots=True)
class Submitted:
    """What somebody submitted to the escrow: hex of the call, the payment's id; a void has no deadline."""

    data: str
    payment: str
    deadline: int | None

    @classmethod
    def read(cls, data: str) -> "Submitted | None":
        """Read a call; None: it is neither `pay` nor `void`."""
        if not data.startswith((_PAY, _VOID)):
            return None
        words = data[len(_PAY) :]
        deadline = int(words[4 * _WORD : 5 * _WORD], 16) if data.startswith(_PAY) else None
        return cls(data, words[:_WORD], deadline)


@dataclass(slots=True)
class Victim:
    """A payment that must not land, by its newest call. `is_patient`: until its deadline is past."""

    call: Submitted
    deadline: int
    is_patient: bool
    was_late: bool = False


class EvmThief:
    """Looks at what waits and does something about it, as chance wants it."""

    def __init__(self, node: Node, seed: bytes, chance: random.Random, count: Tally) -> None:
        self._node, self._chance, self._tally = node, chance, count
        accounts = (Account.from_key(key_from_seed(seed, f"m/44'/60'/0'/0/{one}")) for one in range(_MOST_RELAYERS))
        self._accounts = {str(account.address): account for account in accounts}
        self._escrow = ""
        self._seen: dict[str, Submitted] = {}
        self._victims: dict[str, Victim] = {}
        self._searched = 0

    def look(self) -> None:
        """See what waits, withhold what is to be withheld, and note what can be submitted again."""
        block = self._node.ask("eth_getBlockByNumber", "pending", True)
        waiting = [one for one in block["transactions"] if self._note(one)]
        for one in waiting:
            call = Submitted.read(one["input"])
            if call is not None and call.payment in self._victims:
                self._withhold(one, call)
        self._choose_victims(waiting)
        for payment in list(self._victims):
            self._tend(payment, int(block["timestamp"], 16))

    def act(self) -> None:
        """Play one trick."""
        self._read_blocks()
        trick = self._chance.choice((self._front_run, self._take_nonce, self._replay, self._replay))
        trick()

    # --- Looking ------------------------------------------------------------------------------------------------------
    def _note(self, transaction: dict[str, Any]) -> bool:
        """Note what was submitted to the escrow; tells whether it was one of the relayers'."""
        call = Submitted.read(transaction["input"])
        if call is None or transaction["from"] not in self._accounts:
            return False
        self._escrow = transaction["to"]
        self._seen.setdefault(call.data, call)
        return True

    def _read_blocks(self) -> None:
        """Note what got into blocks without having been seen to wait."""
        newest = int(self._node.ask("eth_blockNumber"), 16)
        for number in range(max(self._searched, newest - _MOST_BLOCKS) + 1, newest + 1):
            block = self._node.ask("eth_getBlockByNumber", hex(number), True)
            for one in block["transactions"] if block else ():
                self._note(one)
            self._searched = number

    def _pending(self) -> list[dict[str, Any]]:
        """Find the payments that wait and are not withheld."""
        block = self._node.ask("eth_getBlockByNumber", "pending", True)
        return [one for one in block["transactions"] if self._note(one) and one["input"].startswith(_PAY)]

    # --- Tricks -------------------------------------------------------------------------------------------------------
    def _front_run(self) -> None:
        if waiting := self._pending():
            one = self._chance.choice(waiting)
            others = [address for address in self._enabled if address != one["from"]]
            if self._submit(one["input"], others, tip=_outbid(one, "maxPriorityFeePerGas")):
                self._tally.count(tally.FRONT_RUN)

    def _take_nonce(self) -> None:
        if (waiting := self._pending()) and self._replace(self._chance.choice(waiting)):
            self._tally.count(tally.NONCE_TAKEN)

    def _replay(self) -> None:
        if not self._seen:
            return
        call = self._chance.choice(list(self._seen.values()))
        if self._submit(call.data, self._enabled):
            self._tally.count(tally.VOID_REPLAYED if call.deadline is None else tally.PAY_REPLAYED)

    # --- Withholding --------------------------------------------------------------------------------------------------
    def _choose_victims(self, waiting: Sequence[dict[str, Any]]) -> None:
        for one in waiting:
            call = Submitted.read(one["input"])
            if len(self._victims) >= _WITHHELD_AT_ONCE or call is None or call.deadline is None:
                continue
            if call.payment not in self._victims and self._replace(one):
                is_patient = not any(victim.is_patient for victim in self._victims.values())
                self._victims[call.payment] = Victim(call, call.deadline, is_patient)
                self._tally.count(tally.WITHHELD)

    def _withhold(self, one: dict[str, Any], call: Submitted) -> None:
        victim = self._victims[call.payment]
        if call.deadline is not None:
            victim.call, victim.deadline = call, max(call.deadline, victim.deadline)
        if self._replace(one) and call.deadline is None:
            self._tally.count(tally.VOID_WITHHELD)

    def _tend(self, payment: str, now: int) -> None:
        """Submit what was withheld, when it hurts most; let go what has come to an end."""
        victim = self._victims[payment]
        status = self._status(payment)
        if status == _PAID:
            del self._victims[payment]
        elif status == _VOIDED or now > victim.deadline + _LONG_S:
            self._let_go(payment, tally.LONG_AFTER)
        elif now > victim.deadline and not victim.was_late:
            victim.was_late = self._submit(victim.call.data, self._enabled)
            self._tally.count(tally.AFTER_DEADLINE, int(victim.was_late))
        elif 0 <= victim.deadline - now < _SHORTLY_S and not victim.is_patient:
            self._let_go(payment, tally.BEFORE_DEADLINE)

    def _let_go(self, payment: str, trick: str) -> None:
        if self._submit(self._victims[payment].call.data, self._enabled):
            self._tally.count(trick)
            del self._victims[payment]

    # --- Transactions -------------------------------------------------------------------------------------------------
    @cached_property
    def _enabled(self) -> list[str]:
        """The relayers that the escrow knows; those that the product does not use, too."""
        return list(self._find_enabled())

    def _find_enabled(self) -> Iterator[str]:
        for address in self._accounts:
            question = {"to": self._escrow, "data": _RELAYERS + address[2:].lower().rjust(_WORD, "0")}
            if int(self._node.ask("eth_call", question, "latest"), 16):
                yield address

    def _status(self, payment: str) -> int:
        return int(self._node.ask("eth_call", {"to": self._escrow, "data": _STATUS + payment}, "latest"), 16)

    def _submit(self, data: str, addresses: Sequence[str], tip: int = _TIP) -> bool:
        """Submit a call once more from one of some relayers; tells whether the node took it."""
        if not addresses:
            return False
        sender = self._chance.choice(addresses)
        nonce = int(self._node.ask("eth_getTransactionCount", sender, "pending"), 16)
        return self._send(sender, nonce, self._escrow, data, (max(tip, _TIP), _MAX_FEE))

    def _replace(self, one: dict[str, Any]) -> bool:
        """Put an empty transaction in the place of one that waits."""
        tip, fee = _outbid(one, "maxPriorityFeePerGas"), _outbid(one, "maxFeePerGas")
        return self._send(one["from"], int(one["nonce"], 16), one["from"], "0x", (max(tip, _TIP), max(fee, _MAX_FEE)))

    def _send(self, sender: str, nonce: int, to: str, data: str, fees: tuple[int, int]) -> bool:
        tip, fee = fees
        signed = self._accounts[sender].sign_transaction(
            {
                "chainId": self._chain_id,
                "nonce": nonce,
                "gas": _GAS,
                "maxFeePerGas": max(fee, tip),
                "maxPriorityFeePerGas": tip,
                "to": to,
                "data": data,
            }
        )
        with suppress(Refused):
            self._node.ask("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
            return True
        return False

    @cached_property
    def _chain_id(self) -> int:
        return int(self._node.ask("eth_chainId"), 16)


def _outbid(one: dict[str, Any], name: str) -> int:
    return int(one[name], 16) * _OUTBID_PERCENT // 100 + 1
