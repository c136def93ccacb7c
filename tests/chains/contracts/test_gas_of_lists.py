"""What a list costs, who used the gas, and that no choice of gas decides what is skipped."""

from itertools import count

import pytest
from eth_account import Account

from chains.evm.preparing import gas_limit
from tests.chains.contracts.hostile import Hostile
from tests.chains.contracts.refusals import TOKEN_REFUSED, TOO_LITTLE_GAS
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import PLENTY_OF_GAS

pytestmark = pytest.mark.long(60)

TOKEN_GAS, VIEW_GAS = 150_000, 30_000
NEW_SLOT_GAS = 17_100  # a balance that was nothing costs so much more than one that was something


def test_what_a_token_may_use_is_told(world):
    assert world.escrow.functions.TOKEN_GAS().call() == TOKEN_GAS


@pytest.fixture
def payees(world):
    """Make payees one after the other, who hold something of the token or nothing."""
    keys = count(5_000)

    def make(*, is_known):
        payee = Account.from_key(next(keys).to_bytes(32)).address
        if is_known:
            world.send(world.token.functions.mint(payee, 1), world.deployer)
        return payee

    return make


@pytest.fixture(autouse=True)
def begun_day(world):
    """The first payment of a day also pays for the place in which the day is counted."""
    world.send(world.pay(world.payment(id=payment_id(901))), world.relayer)


@pytest.fixture
def hostile(world, misbehaving):
    hostile = Hostile(world, misbehaving("HostileToken"))
    world.send(world.pay(hostile.payment(902)), world.relayer)
    return hostile


def a_list(world, payees, number, first_id=1):
    return [world.payment(id=payment_id(first_id + place), recipient=payees(is_known=True)) for place in range(number)]


def shares(world, receipt, number):
    """Read how much gas each payment of a list used."""
    (event,) = world.events(world.escrow.events.GasUsed, receipt)
    assert len(event["packed"]) == -(-number // 8)
    words = b"".join(word.to_bytes(32, "little") for word in event["packed"])
    found = [int.from_bytes(words[place : place + 4], "little") for place in range(0, len(words), 4)]
    assert not any(found[number:])
    return found[:number]


# What it costs.


def test_a_payment_in_a_list_of_sixteen_costs_less_than_half_of_one_alone(world, payees):
    alone = world.send(world.pay(world.payment(id=payment_id(2))), world.relayer).gasUsed

    together = world.send(world.pay_many(a_list(world, payees, 16, first_id=3)), world.relayer).gasUsed / 16

    assert alone < 89_130
    assert together < 42_500


# Who used it.


@pytest.mark.parametrize("number", [1, 7, 8, 9, 17])
def test_the_gas_of_each_payment_is_announced_in_the_order_of_the_list(world, payees, number):
    payments = a_list(world, payees, number)

    receipt = world.send(world.pay_many(payments), world.relayer)
    used = shares(world, receipt, number)

    assert all(30_000 < one < 55_000 for one in used)
    # The transaction itself, its data, the signature and this event.
    assert 30_000 < receipt.gasUsed - sum(used) < 45_000 + 3_000 * number


def test_who_makes_a_payment_dearer_has_the_larger_share(world, payees):
    payments = [world.payment(id=payment_id(number), recipient=payees(is_known=number != 3)) for number in range(1, 5)]

    first, second, third, fourth = shares(world, world.send(world.pay_many(payments), world.relayer), 4)

    assert abs(second - fourth) < 100
    assert abs(third - second - NEW_SLOT_GAS) < 100
    assert first - second > 10_000  # the token, its cap and the escrow's balance are loaded once


def test_a_payment_that_is_skipped_has_its_share_too(world, payees):
    payments = a_list(world, payees, 3)
    world.send(world.pay(payments[1]), world.relayer)

    used = shares(world, world.send(world.pay_many(payments), world.relayer), 3)

    assert 0 < used[1] < 10_000 < used[2]


# What a token can take.


@pytest.mark.parametrize("manner", ["BurnsAllGas", "RevertsAtLength", "ReturnsAtLength"])
def test_a_token_takes_its_own_gas_and_no_more(world, payees, hostile, manner):
    first, second = a_list(world, payees, 2)
    wasteful = hostile.payment(11, manner)

    used = shares(world, world.send(world.pay_many([first, wasteful, second]), world.relayer), 3)

    assert 100_000 < used[1] < TOKEN_GAS + 45_000
    assert used[2] < 40_000


@pytest.mark.parametrize("manner", ["BurnsAllGas", "RevertsAtLength", "ReturnsAtLength"])
def test_a_token_that_is_asked_takes_its_own_gas_and_no_more(world, hostile, manner):
    hostile.let_be_asked()
    payment = hostile.payment(1)
    hostile.behave_when_asked(payment, manner)

    receipt = world.send(world.pay_many([payment]), world.relayer)

    assert world.skipped(receipt) == [(payment.id, TOKEN_REFUSED)]
    assert shares(world, receipt, 1)[0] < VIEW_GAS + 15_000


# No choice of gas decides what is skipped.


def outcome(world, call, gas=PLENTY_OF_GAS, wanted=None):
    """Submit a list, look, and take it back; returns how many it paid, and how many it skipped."""
    before = world.tester.take_snapshot()
    if wanted:
        world.send(wanted, world.stranger)
    receipt = world._mine(call, world.relayer, gas)
    found = len(world.paid(receipt)), len(world.skipped(receipt))
    world.tester.revert_to_snapshot(before)
    return found


def find_least(low, high, is_enough):
    while high - low > 1:
        between = (low + high) // 2
        low, high = (low, between) if is_enough(between) else (between, high)
    return high


def want_all_gas(world, hostile):
    """Have the token want exactly as much gas as it is given where there is plenty: in a transfer, and when asked."""
    call, want = world.pay_many([hostile.payment(800)]), hostile.token.functions.wantGas
    in_transfer = find_least(0, TOKEN_GAS, lambda gas: outcome(world, call, wanted=want(gas, 0)) == (0, 1)) - 1
    when_asked = find_least(0, VIEW_GAS, lambda gas: outcome(world, call, wanted=want(0, gas)) == (0, 1)) - 1
    assert in_transfer > TOKEN_GAS - 7_000
    assert when_asked > VIEW_GAS - 5_000
    world.send(want(in_transfer, when_asked), world.stranger)


def find_least_gas(world, call):
    return find_least(50_000, PLENTY_OF_GAS, lambda gas: outcome(world, call, gas) != (0, 0))


# A question needs less gas than a transfer: in a longer list, an earlier transfer would already have had too little.
@pytest.mark.parametrize(("number", "is_asked"), [(2, False), (1, True)])
def test_with_any_gas_all_of_a_list_is_paid_or_none_of_it(world, hostile, number, is_asked):
    if is_asked:
        hostile.let_be_asked()
    want_all_gas(world, hostile)
    call = world.pay_many([hostile.payment(place) for place in range(number)])
    least = find_least_gas(world, call)

    some = {*range(40_000, least + 20_000, 397), *range(least - 100, least + 100), 2 * least, PLENTY_OF_GAS}
    outcomes = {gas: outcome(world, call, gas) for gas in sorted(some)}

    assert outcomes == {gas: (number, 0) if gas >= least else (0, 0) for gas in outcomes}


@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_with_the_gas_that_relayers_give_a_list_no_token_takes_that_of_the_others(world, hostile, number):
    hostile.let_be_asked()
    want_all_gas(world, hostile)
    payments = [hostile.payment(place) for place in range(1, number)]

    for honest in (world.payment(id=payment_id(100)), hostile.payment(100)):
        assert outcome(world, world.pay_many([*payments, honest]), gas_limit(number)) == (number, 0)


def test_too_little_gas_for_a_token_is_said(world, hostile):
    want_all_gas(world, hostile)
    call = world.pay_many([hostile.payment(1)])
    least = find_least_gas(world, call)

    world.assert_refused(call, world.relayer, TOO_LITTLE_GAS, gas=least - 1)
    world.send(call, world.relayer, gas=least)


def test_a_token_that_wants_more_than_it_is_promised_is_skipped_with_any_gas(world, hostile):
    world.send(hostile.token.functions.wantGas(TOKEN_GAS, 0), world.stranger)
    payment = hostile.payment(1)

    for gas in (PLENTY_OF_GAS, 2 * PLENTY_OF_GAS):
        receipt = world.send(world.pay_many([payment]), world.relayer, gas=gas)
        assert world.skipped(receipt) == [(payment.id, TOKEN_REFUSED)]
