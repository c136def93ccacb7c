"""An escrow on the embedded EVM chain whose keys are rotated."""

import io
import json
from decimal import Decimal

import pytest
from django.core.management import call_command
from eth_account import Account

from chains.evm.derivation import derive_account
from chains.evm.eip1559 import read_call
from chains.port import ChainUnavailable, SignerUnavailable
from foundation.kernel.assets import Asset
from owner.keys import deposit_key
from owner.tests.rotations import Keys, Stage, process, served_as
from owner.wallets import make_wallet
from payments.reconciling.escrow_history import search_history
from policy.models import Agent
from services.served_chains import evm_chain
from tests.support.embedded_nodes import deployer_key
from tests.support.evm_escrow import call, rpc
from tests.support.factories import make_agent, make_service
from tests.support.localnets import EVM

OWNER = {"DEPLOYER_KEY": deployer_key().hex()}
HALF_AN_ETHER = 5 * 10**17


def send(key, to, data="0x", value=0):
    """Send a transaction as anybody with a key does; returns whether it succeeded."""
    account = Account.from_key(key)
    signed = account.sign_transaction(
        {
            "chainId": 31337,
            "nonce": int(rpc("eth_getTransactionCount", account.address, "latest"), 16),
            "gas": 400_000,
            "maxFeePerGas": 10**11,
            "maxPriorityFeePerGas": 10**9,
            "to": to,
            "data": data,
            "value": value,
        }
    )
    tx = rpc("eth_sendRawTransaction", "0x" + signed.raw_transaction.hex())
    while (receipt := rpc("eth_getTransactionReceipt", tx)) is None:
        rpc("evm_mine")
    return receipt["status"] == "0x1"


def relayer_key(keys, number):
    return derive_account(keys.seed, number)[0]._secret


def relayers(keys):
    return [derive_account(keys.seed, number)[1] for number in range(2)]


def give_gas_money(keys):
    for address in relayers(keys):
        assert send(deployer_key(), address, value=HALF_AN_ETHER)


def calldata(payment):
    """Read the call that pays a payment out of the transaction that was signed for it."""
    signed = bytes(payment.settlements.filter(is_void=False).latest("created_at").raw)
    return "0x" + read_call(signed)[1].hex()


class Escrow(Stage):
    """An escrow of one's own with 100 USDC of an agent, whose owner is the account of DEPLOYER_KEY, or another."""

    def __init__(self, owner=None):
        keys = Keys()
        give_gas_money(keys)
        made = self._deploy(keys, owner or Account.from_key(deployer_key()).address)
        super().__init__(EVM, keys, served_as(EVM, escrow=made["escrow"], first_block=made["block"]))
        self.agent = make_agent(balance="0")
        if owner is None:
            self.fund()
        self.look()

    def _deploy(self, keys, owner, cap="USDC=1000"):
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, process(keys, served_as(EVM)):
            patch.setenv("DEPLOYER_KEY", OWNER["DEPLOYER_KEY"])
            call_command(
                "deploy_escrow", "evm-localnet", owner=owner, daily_cap=[cap], stdout=out, stderr=io.StringIO()
            )
        return json.loads(out.getvalue().splitlines()[-1])

    def fund(self):
        with self.running():
            chain = evm_chain(self.caip2)
            make_wallet(chain, deposit_key() or b"", print).deposit(
                self.agent.id, asset=Asset.USDC, amount=Decimal(100)
            )
            while Agent.objects.get(pk=self.agent.pk).balance != 100:
                EVM.mine()
                search_history(self.caip2, chain)

    @property
    def escrow(self):
        return self.served.escrow

    @property
    def balance(self):
        return Agent.objects.get(pk=self.agent.pk).balance

    @property
    def signer(self):
        return int(rpc("eth_call", {"to": self.escrow, "data": call("policySigner()")}, "latest"), 16)

    def knows(self, relayer):
        return bool(int(rpc("eth_call", {"to": self.escrow, "data": call("relayers(address)", relayer)}, "latest"), 16))

    def is_refused(self):
        """Ask for a payment that policy allows, and see that nothing is signed for it."""
        try:
            self.pay(self.agent, make_service(), "0.01")
        except (ChainUnavailable, SignerUnavailable):
            return True
        except Exception as error:  # noqa: BLE001 - the API's own class, by its code
            return type(error).__name__ == "PolicySignerUnavailable"
        return False

    def thief(self, keys, payment, number=1):
        """Submit a payment's signed call as whoever has stolen a relayer's key."""
        return send(relayer_key(keys, number), self.escrow, calldata(payment))
