"""The daily cap."""

from dataclasses import replace

from tests.chains.contracts.refusals import OVER_CAP, TOKEN
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, DAY, FUNDS, NOON


def test_a_payment_just_below_the_daily_cap_is_paid(world):
    world.send(world.pay(world.payment(amount=CAP - 1)), world.relayer)

    assert world.balance(world.recipient.address) == CAP - 1


def test_a_payment_equal_to_the_daily_cap_is_paid(world):
    world.send(world.pay(world.payment(amount=CAP)), world.relayer)

    assert world.balance(world.recipient.address) == CAP


def test_a_payment_above_the_daily_cap_is_refused(world):
    world.assert_refused(world.pay(world.payment(amount=CAP + 1)), world.relayer, OVER_CAP)


def test_the_payments_of_a_day_count_together(world):
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP - 10)), world.relayer)

    above = world.payment(id=payment_id(2), amount=11)
    world.assert_refused(world.pay(above), world.other_relayer, OVER_CAP)
    world.send(world.pay(replace(above, amount=10)), world.other_relayer)
    world.assert_refused(world.pay(world.payment(id=payment_id(3), amount=1)), world.relayer, OVER_CAP)
    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_the_daily_cap_starts_afresh_at_midnight_utc_and_not_before(world):
    midnight = NOON + DAY // 2
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP)), world.relayer)
    tomorrow = world.payment(id=payment_id(2), amount=CAP, deadline=midnight + DAY)

    world.next_block_at(midnight - 1)
    world.assert_refused(world.pay(tomorrow), world.relayer, OVER_CAP)
    assert world.w3.eth.get_block("latest").timestamp == midnight - 1

    world.send(world.pay(tomorrow), world.relayer)
    assert world.w3.eth.get_block("latest").timestamp == midnight
    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_a_token_without_a_cap_cannot_be_paid(world, compiled):
    token = world.deploy_token(compiled["NoReturnToken"])
    world.send(token.functions.mint(world.escrow.address, FUNDS), world.deployer)

    world.assert_refused(world.pay(world.payment(token=token.address, amount=1)), world.relayer, OVER_CAP)


def test_a_cap_of_zero_means_nothing(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, 0), world.owner)

    world.assert_refused(world.pay(world.payment(amount=1)), world.relayer, OVER_CAP)


def test_a_cap_below_what_is_already_paid_stops_the_day(world):
    world.send(world.pay(world.payment(id=payment_id(1), amount=500)), world.relayer)
    world.send(world.escrow.functions.setDailyCap(world.token.address, 499), world.owner)

    world.assert_refused(world.pay(world.payment(id=payment_id(2), amount=1)), world.relayer, OVER_CAP)


def test_an_amount_that_would_overflow_the_count_is_over_the_cap(world):
    most = 2**256 - 1
    world.send(world.escrow.functions.setDailyCap(world.token.address, most), world.owner)
    world.send(world.pay(world.payment(id=payment_id(1), amount=1)), world.relayer)

    world.assert_refused(world.pay(world.payment(id=payment_id(2), amount=most)), world.relayer, OVER_CAP)


def test_each_token_has_its_own_cap(world, misbehaving):
    token = misbehaving("NoReturnToken")
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP)), world.relayer)

    world.send(world.pay(world.payment(id=payment_id(2), token=token.address, amount=CAP)), world.relayer)

    assert world.balance(world.recipient.address, token) == CAP


def test_a_refused_transfer_does_not_count_against_the_cap(world, misbehaving):
    token = misbehaving("FalseToken")
    world.assert_refused(world.pay(world.payment(token=token.address)), world.relayer, TOKEN)

    assert world.escrow.functions.paidToday(token.address).call() == 0
