"""One chain, one escrow, one cast: what every contract test starts from."""

import json
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_tester import EthereumTester, PyEVMBackend
from eth_tester.exceptions import TransactionFailed
from web3 import EthereumTesterProvider, Web3
from web3.logs import DISCARD
from web3.types import TxParams

from payments.contracts.compile import DEVELOPMENT, PRODUCTION, compile_contract

TOKENS = Path(__file__).parent / "tokens"
ESCROW = json.loads((PRODUCTION / "escrow.json").read_text(encoding="utf-8"))
TEST_TOKEN = json.loads((DEVELOPMENT / "test_token.json").read_text(encoding="utf-8"))
# Noon UTC on 2100-01-01, so that no test crosses midnight by accident: the tester follows the clock
# of the machine only when that is ahead of the chain.
NOON = 4_102_488_000
FUNDS = 100_000_000
CAP = 10_000_000

PAYMENT_TYPE = {
    "Payment": [
        {"name": "paymentId", "type": "bytes32"},
        {"name": "token", "type": "address"},
        {"name": "recipient", "type": "address"},
        {"name": "amount", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
    ]
}


@dataclass(frozen=True)
class Payment:
    """What the policy signer signs, in the contract's order."""

    id: bytes
    token: str
    recipient: str
    amount: int
    deadline: int


def payment_id(number: int) -> bytes:
    """Return `pay_` and 26 characters as the contract sees them: ASCII, zeros on the right."""
    return f"pay_{number:026}".encode().ljust(32, b"\0")


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

    def send(self, call, sender):
        """Mine a transaction that is expected to succeed and return its receipt."""
        receipt = self._mine(call, sender)
        assert receipt.status == 1, self._reason(receipt)
        return receipt

    def assert_refused(self, call, sender, reason: str) -> None:
        """Mine a transaction that is expected to fail: for this reason, and moving nothing."""
        before = self.balances()
        receipt = self._mine(call, sender)
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

    def balance(self, holder: str, token=None):
        return (token or self.token).functions.balanceOf(holder).call()

    def next_block_at(self, timestamp: int) -> None:
        self.tester.time_travel(timestamp)

    def _mine(self, call, sender):
        # A given gas limit skips the estimate, which would refuse before anything is mined.
        transaction = call.transact({"from": sender.address, "gas": 3_000_000})
        return self.w3.eth.get_transaction_receipt(transaction)

    def _reason(self, receipt) -> str:
        # The failed transaction changed nothing: asked again at its own block, it says why.
        sent = self.w3.eth.get_transaction(receipt.transactionHash)
        question: TxParams = {"from": sent["from"], "data": sent["input"]}
        if sent["to"]:
            question["to"] = sent["to"]
        with pytest.raises(TransactionFailed) as refusal:
            self.w3.eth.call(question, block_identifier=receipt.blockNumber)
        return str(refusal.value).removeprefix("execution reverted: ").replace("b''", "")

    # The escrow.

    def payment(self, **changes) -> Payment:
        values = {
            "id": payment_id(1),
            "token": self.token.address,
            "recipient": self.recipient.address,
            "amount": 250_000,
            "deadline": NOON + 3_600,
        }
        return Payment(**(values | changes))

    def sign(self, payment: Payment, *, signer=None, **domain):
        """Sign with `eth_account`: an implementation of EIP-712 other than the contract's."""
        names = [field["name"] for field in PAYMENT_TYPE["Payment"]]
        return (
            (signer or self.signer)
            .sign_typed_data(
                {
                    "name": "Allowance Escrow",
                    "version": "1",
                    "chainId": self.w3.eth.chain_id,
                    "verifyingContract": self.escrow.address,
                }
                | domain,
                PAYMENT_TYPE,
                dict(zip(names, astuple(payment), strict=True)),
            )
            .signature
        )

    def pay(self, payment: Payment, signature: bytes | None = None):
        """Return the call, signed by the policy signer unless another signature is given."""
        signature = self.sign(payment) if signature is None else signature
        return self.escrow.functions.pay(*astuple(payment), signature)

    def deposit(self, token, amount: int, agent: str = "agent-7"):
        return self.escrow.functions.deposit(agent, token.address, amount)

    def settled(self, payment: Payment):
        return self.escrow.functions.settled(payment.id).call()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def compiled():
    """Return the compiled tokens of this folder, by name."""
    return {source.stem: compile_contract(source) for source in TOKENS.glob("*.vy")}


@pytest.fixture
def misbehaving(world, compiled):
    """Deploy and fund one of the tokens of this folder."""

    def deploy(name: str, *arguments):
        token = world.deploy_token(compiled[name], *arguments)
        world.fund(token)
        return token

    return deploy
