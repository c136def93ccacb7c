"""The stage of the attacks: payments on the real escrows, and who has stolen a key."""

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from eth_account import Account
from eth_account.hdaccount import key_from_seed

from chains.evm.eip1559 import read_call
from foundation.environment.keys import held_key
from payments.models import ChainState, Outflow, Payment
from tests.payments.conftest import localnet, payee, real  # noqa: F401 - fixtures
from tests.support.evm_escrow import as_owner, escrow
from tests.support.localnets import EVM
from tests.support.scenes import transaction_of
from workshop.localnet.folder import ROOT, open_folder

# An account of the seed that the product does not use: its nonces are not ours to keep in order.
HIDEOUT = 99


class Thief:
    """Who has stolen one key, and sees what everybody sees. Each act is a process that is given no more."""

    def __init__(self, **stolen: str) -> None:
        self._stolen = stolen

    def use_nonce_of(self, payment: Payment) -> str:
        """Use the nonce of a payment's transaction up with one that moves nothing."""
        row = transaction_of(payment)
        return self._act("use-nonce", str(row.relayer.number), str(row.nonce))

    def submit(self, calldata: str, **options: str) -> str:
        """Submit a call that somebody else had signed, from another relayer; `GAS`: with so much gas."""
        return self._act("submit", str(HIDEOUT), calldata, escrow(), **options)

    def submit_both(self, *calldata: str) -> str:
        """Submit two calls that somebody else had signed by one transaction."""
        return self._act("submit-both", str(HIDEOUT), *calldata, escrow())

    def run_code(self, contract: str) -> str:
        """Have the key's account run a contract's code (EIP-7702)."""
        return self._act("run-code", "-", contract)

    def include(self, tx: str) -> bool:
        """Wait until a transaction is in a block; tells whether it succeeded."""
        while (receipt := EVM.rpc("eth_getTransactionReceipt", tx)) is None:
            EVM.mine()
        return bool(receipt["status"] == "0x1")

    def _act(self, *arguments: str, **options: str) -> str:
        stolen = {**self._stolen, **options, "NODE_URL": settings.CHAINS[EVM.caip2].rpc_urls[0]}
        command = [sys.executable, "-m", "tests.attacks.thief", *arguments]
        done = subprocess.run(command, env=stolen, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def thief(committed: None) -> Iterator[Thief]:
    """Whoever has the relayers' seed, with an account that the escrow knows, and gas money."""
    key = key_from_seed(held_key("RELAYER_SEED"), f"m/44'/60'/0'/0/{HIDEOUT}")
    address = Account.from_key(key).address
    as_owner("setRelayer(address,bool)", address, True)
    _give_gas(Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"]), address)
    yield Thief(RELAYER_SEED=held_key("RELAYER_SEED").hex())
    as_owner("setRelayer(address,bool)", address, False)


@pytest.fixture
def policy_thief(committed: None) -> Thief:
    """Whoever has the policy signer's key, and gas money of their own."""
    key = held_key("POLICY_SIGNER_SECP256K1_KEY")
    _give_gas(Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"]), Account.from_key(key).address)
    return Thief(STOLEN_KEY=key.hex())


@pytest.fixture
def is_untroubled(committed: None) -> Callable[[str], bool]:
    """Tell whether a chain (CAIP-2) is signed on, and no outflow was found on it since the test began."""
    known = set(Outflow.objects.values_list("pk", flat=True))

    def is_untroubled(chain: str) -> bool:
        found = Outflow.objects.filter(chain=chain).exclude(pk__in=known)
        return ChainState.objects.get(chain=chain).stopped_reason == "" and not found.exists()

    return is_untroubled


def _give_gas(giver, address: str) -> None:
    signed = giver.sign_transaction(
        {
            "chainId": 31337,
            "nonce": int(EVM.rpc("eth_getTransactionCount", giver.address, "latest"), 16),
            "gas": 30_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**9,
            "to": address,
            "value": 10**19,
            "data": b"",
        }
    )
    tx = EVM.rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    while EVM.rpc("eth_getTransactionReceipt", tx) is None:
        EVM.mine()


def follow_until_final(tx: str) -> None:
    """Let the block that has a transaction be final, and the product notice it."""
    while (number := EVM.find_block(tx)) is None:
        EVM.mine()
    while EVM.adapter.follower.find_finality().block_number < number:
        EVM.mine()
    EVM.send()
    EVM.follow()


def calldata_of(raw: bytes) -> str:
    """Read the call of a transaction as everybody sees it once it was sent."""
    return "0x" + read_call(raw)[1].hex()


def seen_of(payment: Payment) -> str:
    """Read the call of a payment's newest transaction."""
    return calldata_of(bytes(transaction_of(payment).raw))
