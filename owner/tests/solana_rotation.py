"""An escrow on the embedded Solana chain whose keys are rotated."""

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

from django.core.management import call_command
from solders.keypair import Keypair

from chains.solana.derivation import TOKEN_PROGRAM, EscrowSigners, relayer_keypair
from chains.solana.withdrawing import sign_further
from foundation.kernel.assets import Asset
from owner.keys import deposit_key
from owner.solana.moving import find_held
from owner.tests.rotations import Keys, Stage, process, served_as, status
from owner.wallets import make_wallet
from payments.lifecycle import PaymentStatus
from payments.models import Deposit, Withdrawal
from policy.models import Agent
from services.served_chains import solana_chain
from tests.support.factories import make_agent
from tests.support.localnets import SOLANA

SYSTEM = "11111111111111111111111111111111"
NOWHERE = {"escrow": "1" * 32, "owner": "1" * 32}
ASSETS = (Asset.SOL, Asset.USDC)


@contextmanager
def time_passing() -> Iterator[None]:
    """Let blocks come faster than on a public chain."""
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.02):
            SOLANA.rpc("dev_nextBlock")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def give_sol(seed):
    address = str(relayer_keypair(seed, 0).pubkey())
    SOLANA.rpc("dev_setAccount", address, {"lamports": 10**9, "owner": SYSTEM})


def submit(raw):
    """Send a transaction as anybody can; returns whether it succeeded."""
    options = {"encoding": "base64", "skipPreflight": True}
    tx = SOLANA.rpc("sendTransaction", base64.b64encode(raw).decode(), options)
    for _ in range(5):
        SOLANA.mine()
        (found,) = SOLANA.rpc("getSignatureStatuses", [tx], {"searchTransactionHistory": True})["value"]
        if found is not None:
            return found["err"] is None
    return False


class Escrow(Stage):
    """An escrow of one's own, with 10 USDC and 2 SOL of two agents; its owner's key is a wallet's."""

    def __init__(self):
        keys, self.owner = Keys(), Keypair()
        give_sol(keys.seed)
        SOLANA.rpc("dev_setAccount", str(self.owner.pubkey()), {"lamports": 10**9, "owner": SYSTEM})
        out = io.StringIO()
        with process(keys, served_as(SOLANA, **NOWHERE)):
            owner = str(self.owner.pubkey())
            call_command("deploy_escrow", "solana-localnet", owner=owner, stdout=out, stderr=io.StringIO())
        made = json.loads(out.getvalue().splitlines()[-1])
        served = served_as(SOLANA, escrow=made["escrow"], owner=owner, first_block=made["block"])
        super().__init__(SOLANA, keys, served)
        self.agents = {asset: make_agent(asset=asset, balance="0") for asset in ASSETS}
        self.deposit(Asset.USDC, "10")
        self.deposit(Asset.SOL, "2")
        with time_passing():
            while self.balances != {Asset.USDC: 10, Asset.SOL: 2}:
                self.work()
        self.look()

    def deposit(self, asset, amount, keys=None, **changes):
        """Deposit as a customer does, at the address that belongs to these keys."""
        with process(keys or self.keys, served_as(SOLANA, **{**self.served_variables, **changes})):
            wallet = make_wallet(solana_chain(self.caip2), deposit_key() or b"", print)
            wallet.deposit(self.agents[asset].id, asset=asset, amount=Decimal(amount))

    @property
    def served_variables(self):
        return {name: getattr(self.served, name) for name in ("escrow", "owner", "first_block")}

    @property
    def balances(self):
        return {asset: Agent.objects.get(pk=agent.pk).balance for asset, agent in self.agents.items()}

    def held(self, keys):
        """Read what the escrow of these keys holds in its newest final block."""
        signers = self.signers(keys)
        with process(keys, served_as(SOLANA, escrow=str(signers.escrow(TOKEN_PROGRAM)), owner=self.served.owner)):
            chain = solana_chain(self.caip2)
            return {asset: held.units for asset, held in find_held(chain.nodes, chain.escrow).items()}

    def signers(self, keys):
        policy = Keypair.from_seed(keys.solana).pubkey()
        return EscrowSigners(relayer_keypair(keys.seed, 0).pubkey(), policy, self.owner.pubkey())

    def sign_as_owner(self, lines):
        """Sign and send what the command printed for the owner, with a wallet that has nothing but the owner's key."""
        for line in lines:
            if not line.startswith(("{", "CHAIN_")):
                assert submit(sign_further(base64.b64decode(line), [self.owner]))

    def rotate_with_owner(self, keys, environment):
        """Run the command again and again, as often as the owner has to sign something; the first time is too late."""
        first = self.rotate(keys, environment, "--now", "--no-wait")
        assert not first.result["done"]
        assert len(first.lines) == 2
        SOLANA.rpc("dev_advance", 300)
        assert not submit(sign_further(base64.b64decode(first.lines[0]), [self.owner]))
        for _ in range(40):
            rotation = self.rotate(keys, environment, "--now", "--no-wait")
            if rotation.result["done"]:
                return rotation
            self.sign_as_owner(rotation.lines)
            SOLANA.rpc("dev_advance", 40)
        raise AssertionError("It does not come to an end.")

    def go_on(self, keys, rotation):
        """Restart the processes with what the command printed, see that the chain matches, and start it."""
        variables = rotation.variables
        self.restart(
            keys,
            escrow=variables["CHAIN_SOLANA_LOCALNET_ESCROW"],
            owner=variables["CHAIN_SOLANA_LOCALNET_OWNER"],
            first_block=int(variables["CHAIN_SOLANA_LOCALNET_FIRST_BLOCK"]),
        )
        self.look()
        assert self.mismatches() == []
        self.run("start_chain", "solana-localnet")

    def check_that_payments_go_on(self):
        before = self.balances[Asset.USDC]
        service = SOLANA.make_service()
        self.look()
        payment = self.pay(self.agents[Asset.USDC], service, "0.75")
        with time_passing():
            self.work_until_nothing_is_in_flight()
        assert (status(payment), self.has(service)) == (PaymentStatus.SETTLED, 750_000)
        assert self.balances[Asset.USDC] == before - Decimal("0.75")

    def check_books(self, keys):
        """See that the escrow in use holds what the agents have, and that no move was taken for a deposit."""
        held = self.held(keys)
        assert held == {asset: int(amount.scaleb(asset.decimals)) for asset, amount in self.balances.items() if amount}
        assert not Deposit.objects.filter(chain=self.caip2, state="aside").exists()
        assert not Withdrawal.objects.filter(
            chain=self.caip2, agent=None, landed_block=None, cancelled_at=None
        ).exists()
