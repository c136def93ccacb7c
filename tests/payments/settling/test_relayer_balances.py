"""Nothing is approved that no relayer could submit: what is under way counts against their gas money."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from math import floor
from random import randrange
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from eth_account import Account

from chains.port import ChainUnavailable, NonceState, RelayerState
from foundation.kernel.errors import PolicySignerUnavailable
from payments.deciding.operations import request_payment
from payments.environment import payment_environment
from payments.lifecycle import OPEN_STATES, PaymentStatus, SettlementState
from payments.models import Payment, Relayer, Settlement
from payments.models.relayers import FIRST_FORMER
from payments.settling.nonces import assign_nonce
from payments.settling.relayer_balances import record_relayer_state, reserved_transactions
from policy.models import Agent
from tests.support.evm_escrow import as_owner, rpc
from tests.support.invariants import check_nonces
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.payment_requests import make_request, pay_on
from tests.support.payment_storms import storm
from tests.support.scenes import Scene, status_of, transaction_of, void_of
from workshop.localnet.folder import open_folder

pytestmark = pytest.mark.usefixtures("one_relayer")


LINE = settings.MAX_IN_FLIGHT_PER_RELAYER
KEPT_BACK = reserved_transactions()
Pay = Callable[[], Payment]


def at_most(payments: list[Payment]) -> Decimal:
    rows = Settlement.objects.filter(payments__in=payments)
    return rows.aggregate(sum=Sum("most_cost"))["sum"] or Decimal(0)


# --- With nonces ------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("committed")
def test_a_storm_of_payments_is_approved_only_as_far_as_the_relayers_gas_money_goes():
    scene = Scene(relayers=2)
    scene.chain.gas_money.update({"relayer-0": LINE, "relayer-1": LINE + 2})
    scene.tend()

    approved = storm(lambda agent: pay_on(scene.chain, agent, scene.service), agents=8, each=8)

    lines = [scene.relayer(number).next_nonce or 0 for number in (0, 1)]
    assert 0 < len(approved) == lines[0] + lines[1]
    assert lines[0] <= LINE - KEPT_BACK
    assert lines[1] <= LINE + 2 - KEPT_BACK


def test_gas_money_that_was_not_used_up_is_there_for_the_next_ones(db):
    scene = Scene()
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    first = [scene.pay() for _ in range(LINE - KEPT_BACK)]
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()

    scene.broadcast()
    for payment in first:
        scene.chain.include(transaction_of(payment))
    scene.confirm()
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()  # what is left of the gas money, nobody has seen yet
    scene.tend()

    assert status_of(scene.pay()) == PaymentStatus.APPROVED


def test_a_node_that_says_that_no_nonce_is_used_takes_up_no_gas_money(db):
    scene = Scene()
    for _ in range(2):
        payments = [scene.pay() for _ in range(LINE)]
        scene.broadcast()
        for payment in payments:
            scene.chain.include(transaction_of(payment))
        scene.confirm()
    scene.chain.gas_money["relayer-0"] = LINE
    scene.chain.mined["relayer-0"] = scene.chain.final_nonces["relayer-0"] = 0

    scene.tend()

    assert status_of(scene.pay()) == PaymentStatus.APPROVED
    assert assign_nonce(scene.chain.name)[1].nonce == 2 * LINE + 1


def test_what_is_under_way_counts_as_it_was_signed_and_not_as_the_chain_asks_now(db):
    scene = Scene()
    scene.chain.gas_money["relayer-0"] = 2 * LINE
    dear = scene.pay()
    Settlement.objects.filter(payments=dear).update(most_cost=LINE)

    scene.tend()

    for _ in range(LINE - KEPT_BACK):
        scene.pay()
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


@pytest.mark.parametrize(
    "spendable", ["0", "0.5", "6.9", "7", "9.999999999999999999", "10", "10.000000000000000001", "400"]
)
def test_as_many_more_are_paid_for_as_what_is_left_pays_for_whole_ones(db, spendable):
    scene = Scene()
    first, second = scene.pay(), scene.pay()
    Settlement.objects.filter(payments=first).update(most_cost="2.5")
    Settlement.objects.filter(payments=second).update(most_cost=None)
    scene.skip_nonce()
    cost = Decimal("1.5")
    state = RelayerState(Decimal(spendable), Decimal(spendable), cost, NonceState(0, 0))

    record_relayer_state(scene.relayer(), state, {}, has_key=True)

    # What is under way: one by its own cost, one by that of another transaction, and a nonce that will be filled.
    more = floor((Decimal(spendable) - Decimal("2.5") - 2 * cost) / cost)
    assert scene.relayer().funded_until == 3 + more - KEPT_BACK


def test_who_has_to_be_given_gas_money_is_said_once_a_minute(db, caplog):
    scene = Scene()
    scene.chain.gas_money["relayer-0"] = 0
    scene.tend()

    for _ in range(20):
        with pytest.raises(PolicySignerUnavailable, match="gas money"):
            scene.pay()

    said = [record.getMessage() for record in caplog.records if "no relayer has the gas money" in record.getMessage()]
    assert len(said) == 1
    assert "relayer-0" in said[0]


def test_a_busy_relayer_is_not_told_to_need_gas_money(db):
    scene = Scene()
    Relayer.objects.filter(chain=scene.chain.name).update(next_nonce=3, mined_nonce=4)

    with pytest.raises(PolicySignerUnavailable, match="No relayer is free"):
        scene.pay()


def test_payments_leave_gas_money_for_what_frees_some(db):
    scene = Scene()
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    payments = [scene.pay() for _ in range(LINE - KEPT_BACK)]
    scene.broadcast()
    scene.chain.include(transaction_of(payments[0]), failure="Reverted.")
    scene.confirm()

    scene.give_back(payments[0])

    assert void_of(payments[0]).state == SettlementState.FINAL
    assert status_of(payments[0]) == PaymentStatus.FAILED
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


def test_payments_leave_gas_money_for_what_frees_some_where_lines_are_short(db, settings):
    settings.MAX_IN_FLIGHT_PER_RELAYER = 3
    scene = Scene()
    scene.chain.gas_money["relayer-0"] = 3
    scene.tend()
    for _ in range(2):
        scene.pay()

    with pytest.raises(PolicySignerUnavailable):
        scene.pay()

    assert assign_nonce(scene.chain.name)[1].nonce == 2


def test_a_list_that_is_signed_anew_gets_a_relayer_that_can_pay_for_all_of_it(db):
    scene = Scene(relayers=2)
    scene.chain.gas_money["relayer-0"] = LINE
    scene.tend()
    for _ in range(4):
        scene.pay()

    # The poor one has the shorter line, for want of gas money.
    Relayer.objects.filter(chain=scene.chain.name, number=0).update(next_nonce=1, mined_nonce=1, funded_until=3)
    rich = scene.relayer(1)
    with transaction.atomic():
        relayer, submitter = assign_nonce(scene.chain.name, payments=3)
    assert (relayer.number, submitter.nonce) == (1, rich.next_nonce)
    assert rich.funded_until is not None
    assert scene.relayer(1).funded_until == rich.funded_until - 2
    with transaction.atomic():
        assert assign_nonce(scene.chain.name)[0].number == 0
    with pytest.raises(ChainUnavailable), transaction.atomic():
        assign_nonce(scene.chain.name, payments=10**6)


def test_what_frees_gas_money_does_not_use_up_what_there_is_not(db, caplog):
    scene = Scene()
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted.")
    scene.chain.gas_money["relayer-0"] = 0
    scene.tend()
    scene.confirm()

    assert not Settlement.objects.filter(payments=payment, is_void=True).exists()
    scene.chain.gas_money["relayer-0"] = 1  # too little for payments
    scene.tend()
    scene.confirm()

    assert Settlement.objects.filter(payments=payment, is_void=True).exists()


# --- On a real chain --------------------------------------------------------------------------------------------------
@pytest.fixture
def poor_relayer(committed: None) -> Iterator[Relayer]:
    """A relayer of the embedded EVM chain with the gas money for 20 payments, which has to take all of them."""
    EVM.drain()
    number = randrange(1_000, FIRST_FORMER)
    address = EVM.adapter.preparer.relayer_address(number)
    as_owner("setRelayer(address,bool)", address, True)
    _forget_tips()
    most_cost = EVM.adapter.observer.observe_relayers([address])[address].most_cost
    _give(address, int((most_cost * 41 / 2).scaleb(18)))
    _forget_tips()
    others = Relayer.objects.filter(chain=LOCALNET, is_enabled=True)
    numbers = list(others.values_list("pk", flat=True))
    others.update(is_enabled=False)
    relayer = Relayer.objects.create(chain=LOCALNET, number=number, address=address, next_nonce=0)
    yield relayer
    Relayer.objects.filter(pk__in=numbers).update(is_enabled=True)
    Relayer.objects.filter(pk=relayer.pk).update(is_enabled=False)
    check_nonces(LOCALNET)


def _forget_tips() -> None:
    """Let the tips of the last blocks, which are those of the owner's transactions, no longer be the usual ones."""
    for _ in range(5):
        EVM.mine()


def _give(address: str, wei: int) -> None:
    owner = Account.from_key(open_folder().keys()["EVM_DEPLOYER_KEY"])
    fields: dict[str, Any] = {"chainId": 31337, "gas": 21_000, "maxFeePerGas": 10**12, "maxPriorityFeePerGas": 10**9}
    fields |= {"nonce": int(rpc("eth_getTransactionCount", owner.address), 16), "to": address, "value": wei}
    tx = rpc("eth_sendRawTransaction", "0x" + owner.sign_transaction(fields).raw_transaction.hex())
    while rpc("eth_getTransactionReceipt", tx) is None:
        rpc("evm_mine")


def test_on_a_real_chain_all_that_is_approved_in_a_storm_is_paid_for_and_settles(poor_relayer):
    EVM.observe()
    seen = Relayer.objects.get(pk=poor_relayer.pk)
    assert seen.is_funded
    service, environment = EVM.make_service(), replace(payment_environment(), wake=lambda _: None)

    def pay(agent: Agent) -> Payment:
        return Payment.objects.get(pk=request_payment(make_request(agent, service), environment).entry.payment_id)

    approved = storm(pay, agents=8, each=8)

    assert 0 < len(approved) <= seen.gas_balance / seen.most_cost - KEPT_BACK < 64
    assert at_most(approved) <= seen.gas_balance
    EVM.drain()
    assert {status_of(payment) for payment in approved} == {PaymentStatus.SETTLED}
    assert not Settlement.objects.filter(relayer=poor_relayer, state__in=OPEN_STATES).exists()
