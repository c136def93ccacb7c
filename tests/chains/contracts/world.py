"""One chain, one escrow, one cast: what every contract test starts from."""

import ast
import json
import os
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import TransactionFailed
from web3 import EthereumTesterProvider, Web3
from web3.logs import DISCARD
from web3.types import TxParams

from chains.contracts.compile import DEVELOPMENT, PRODUCTION
from chains.evm.contract_errors import read_contract_error
from tests.chains.contracts.typed_data import BATCH_TYPE, PAYMENT_TYPE, VOID_TYPE, Payment, payment_id


def read_artifact(path: Path) -> dict[str, Any]:
    artifact: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return artifact


# Another one is named where the tests themselves are tested: see `tests.chains.contracts.breaks`.
ESCROW = read_artifact(Path(os.environ.get("ESCROW_ARTIFACT") or PRODUCTION / "escrow.json"))
TEST_TOKEN = read_artifact(DEVELOPMENT / "test_token.json")
# Noon UTC on 2100-01-01, so that no test crosses midnight by accident: the tester follows the clock
# of the machine only when that is ahead of the chain.
NOON = 4_102_488_000
FUNDS = 100_000_000
CAP = 10_000_000
DAY = 86_400
DEADLINE = NOON + 3_600
PLENTY_OF_GAS = 6_000_000
ZERO = "0x" + "00" * 20
CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
NONE, PAID, VOID = range(3)


class World:
    """A fresh chain with a funded escrow."""

    def __init__(self) -> None:
        genesis = PyEVMBackend.generate_genesis_params({"timestamp": NOON})
        self.tester = EthereumTester(PyEVMBackend(genesis_parameters=genesis))
        self.w3 = Web3(EthereumTesterProvider(self.tester))
        # The tester's accounts have the private keys 1, 2, 3 …
        cast = [Account.from_key(number.to_bytes(32)) for number in range(1, 11)]
        self.owner, self.signer, self.relayer, self.other_relayer, self.depositor = cast[:5]
        self.recipient, self.stranger, self.new_owner, self.new_signer, self.deployer = cast[5:]
        # Without it, every read makes the tester derive all of its accounts to pick one.
        self.w3.eth.default_account = self.stranger.address
        self.holders = [account.address for account in cast]
        self.tokens: list[Any] = []

        self.escrow = self.deploy_escrow()
        self.token = self.deploy_token(TEST_TOKEN, "USD Coin", "USDC", 6)
        self.fund(self.token)

    # The chain.

    def deploy(self, compiled: dict[str, Any], *arguments):
        receipt = self.send(self.constructor(compiled, *arguments), self.deployer)
        self.holders.append(receipt.contractAddress)
        return self.w3.eth.contract(receipt.contractAddress, abi=compiled["abi"])

    def constructor(self, compiled: dict[str, Any], *arguments):
        factory = self.w3.eth.contract(abi=compiled["abi"], bytecode=compiled["bytecode"])
        return factory.constructor(*arguments)

    def deploy_escrow(self):
        return self.deploy(
            ESCROW,
            self.owner.address,
            self.signer.address,
            [self.relayer.address, self.other_relayer.address],
        )

    def deploy_token(self, compiled: dict[str, Any], *arguments):
        token = self.deploy(compiled, *arguments)
        self.tokens.append(token)
        return token

    def fund(self, token) -> None:
        """Put money into the escrow, outside of `deposit`, and let all of the cap be paid."""
        self.send(token.functions.mint(self.escrow.address, FUNDS), self.deployer)
        self.send(self.escrow.functions.setDailyCap(token.address, CAP), self.owner)

    def send(self, call, sender, *, gas: int = PLENTY_OF_GAS):
        """Mine a transaction that is expected to succeed and return its receipt."""
        receipt = self._mine(call, sender, gas)
        assert receipt.status == 1, self._reason(receipt)
        return receipt

    def assert_refused(self, call, sender, reason: str, *, gas: int = PLENTY_OF_GAS) -> None:
        """Mine a transaction that is expected to fail: for this reason, and moving nothing."""
        before = self.balances()
        receipt = self._mine(call, sender, gas)
        assert receipt.status == 0
        assert self._reason(receipt) == reason
        assert receipt.logs == []
        assert self.balances() == before

    def balances(self) -> dict[tuple[str, str], int]:
        return {
            (token.address, holder): self.balance(holder, token) for token in self.tokens for holder in self.holders
        }

    def events(self, event, receipt) -> list[dict[str, Any]]:
        """Return the arguments of every event of this kind in the receipt, in order."""
        return [dict(log.args) for log in event().process_receipt(receipt, errors=DISCARD)]

    def paid(self, receipt) -> list[bytes]:
        """Return the ids of what was paid, in order."""
        return [event["paymentId"] for event in self.events(self.escrow.events.Paid, receipt)]

    def skipped(self, receipt) -> list[tuple[bytes, str]]:
        """Return the ids of what was skipped, in order, each with the reason."""
        return [(event["paymentId"], event["why"]) for event in self.events(self.escrow.events.Skipped, receipt)]

    def balance(self, holder: str, token=None):
        return (token or self.token).functions.balanceOf(holder).call()

    def next_block_at(self, timestamp: int) -> None:
        self.tester.time_travel(timestamp)

    def _mine(self, call, sender, gas: int):
        # A given gas limit skips the estimate, which would refuse before anything is mined.
        transaction = call.transact({"from": sender.address, "gas": gas})
        return self.w3.eth.get_transaction_receipt(transaction)

    def _reason(self, receipt) -> str:
        # The failed transaction changed nothing: asked again at its own block, it says why.
        sent = self.w3.eth.get_transaction(receipt.transactionHash)
        question: TxParams = {"from": sent["from"], "data": sent["input"], "gas": sent["gas"]}
        if sent["to"]:
            question["to"] = sent["to"]
        return self._refusal(question, receipt.blockNumber)

    def refusal(self, call) -> str:
        """Ask what is expected to be refused, and return why."""
        return self._refusal({"to": call.address, "data": call._encode_transaction_data()}, "latest")

    def _refusal(self, question, block) -> str:
        with pytest.raises(TransactionFailed) as refusal:
            self.w3.eth.call(question, block_identifier=block)
        return _read_reason(str(refusal.value).removeprefix("execution reverted: "))

    # The escrow.

    def payment(self, **changes) -> Payment:
        values = {
            "id": payment_id(1),
            "token": self.token.address,
            "recipient": self.recipient.address,
            "amount": 250_000,
            "deadline": DEADLINE,
        }
        return Payment(**(values | changes))

    def sign(self, payment: Payment, *, signer=None, **domain):
        names = [field["name"] for field in PAYMENT_TYPE["Payment"]]
        return self.sign_typed(PAYMENT_TYPE, dict(zip(names, astuple(payment), strict=True)), signer, domain)

    def sign_many(self, payments: Sequence[Payment], deadline: int = DEADLINE, *, signer=None, **domain):
        names = [field["name"] for field in BATCH_TYPE["Payment"]]
        items = [dict(zip(names, item(payment), strict=True)) for payment in payments]
        return self.sign_typed(BATCH_TYPE, {"payments": items, "deadline": deadline}, signer, domain)

    def sign_void(self, payment: Payment, *, signer=None, **domain):
        return self.sign_typed(VOID_TYPE, {"paymentId": payment.id}, signer, domain)

    def sign_typed(self, types, values, signer=None, domain=None):
        """Sign with `eth_account`: an implementation of EIP-712 other than the contract's."""
        own_domain = {
            "name": "Allowance Escrow",
            "version": "1",
            "chainId": self.w3.eth.chain_id,
            "verifyingContract": self.escrow.address,
        }
        return (signer or self.signer).sign_typed_data(own_domain | (domain or {}), types, values).signature

    def pay(self, payment: Payment, signature: bytes | None = None):
        """Return the call, signed by the policy signer unless another signature is given."""
        signature = self.sign(payment) if signature is None else signature
        return self.escrow.functions.pay(*astuple(payment), signature)

    def pay_many(self, payments: Sequence[Payment], signature: bytes | None = None, deadline: int = DEADLINE):
        """Return the call, signed by the policy signer unless another signature is given."""
        signature = self.sign_many(payments, deadline) if signature is None else signature
        return self.escrow.functions.payMany([item(payment) for payment in payments], deadline, signature)

    def void(self, payment: Payment, signature: bytes | None = None):
        """Return the call, signed by the policy signer unless another signature is given."""
        signature = self.sign_void(payment) if signature is None else signature
        return self.escrow.functions.void(payment.id, signature)

    def deposit(self, token, amount: int, agent: str = "agent-7"):
        return self.escrow.functions.deposit(agent, token.address, amount)

    def is_paid(self, payment: Payment):
        return self.status(payment) == PAID

    def is_void(self, payment: Payment):
        return self.status(payment) == VOID

    def status(self, payment: Payment):
        return self.escrow.functions.status(payment.id).call()


def item(payment: Payment) -> tuple[Any, ...]:
    """Return a payment as it stands in a list."""
    return astuple(payment)[:-1]


def _read_reason(text: str) -> str:
    """Read a text, or the bytes that the tester shows of anything else; of an error only its name."""
    if not text.startswith(("b'", 'b"')):
        return text
    returned = ast.literal_eval(text)
    return (read_contract_error(returned) or returned.hex()).partition("(")[0]
