"""Deposits."""

from tests.chains.contracts.refusals import LONG_AGENT, NO_AGENT, NOT_APPROVED, NOTHING_ARRIVED, TOKEN, ZERO_AMOUNT
from tests.chains.contracts.world import FUNDS


def test_a_deposit_pulls_exactly_its_amount_and_names_the_agent(world, depositor):
    receipt = world.send(world.deposit(world.token, 1_000, agent="agent-7"), depositor)

    assert world.balance(depositor.address) == 4_000
    assert world.balance(world.escrow.address) == FUNDS + 1_000
    assert world.events(world.escrow.events.Deposited, receipt) == [
        {
            "depositor": depositor.address,
            "token": world.token.address,
            "agent": "agent-7",
            "amount": 1_000,
        }
    ]


def test_an_agent_name_of_1024_bytes_is_kept_whole(world, depositor):
    receipt = world.send(world.deposit(world.token, 1, agent="ä" * 512), depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["agent"] == "ä" * 512


def test_an_agent_name_above_1024_bytes_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1, agent="a" * 1025), depositor, LONG_AGENT)


def test_a_deposit_without_an_agent_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1, agent=""), depositor, NO_AGENT)


def test_a_deposit_of_nothing_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 0), depositor, ZERO_AMOUNT)


def test_a_deposit_above_what_was_approved_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1_001), depositor, NOT_APPROVED)


def test_a_deposit_of_a_token_without_return_value_is_credited(world, misbehaving):
    token = misbehaving("NoReturnToken")
    world.send(token.functions.mint(world.depositor.address, 500), world.deployer)

    receipt = world.send(world.deposit(token, 500), world.depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["amount"] == 500
    assert world.balance(world.escrow.address, token) == FUNDS + 500


def test_a_deposit_of_a_token_that_answers_false_is_refused(world, misbehaving):
    token = misbehaving("FalseToken")
    world.send(token.functions.mint(world.depositor.address, 500), world.deployer)

    world.assert_refused(world.deposit(token, 500), world.depositor, TOKEN)


def test_a_deposit_of_a_token_with_a_fee_credits_what_arrived(world, misbehaving):
    token = misbehaving("FeeToken", 30)
    world.send(token.functions.mint(world.depositor.address, 1_000), world.deployer)

    receipt = world.send(world.deposit(token, 1_000), world.depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["amount"] == 970
    assert world.balance(world.escrow.address, token) == FUNDS + 970


def test_a_deposit_of_which_nothing_arrives_is_refused(world, misbehaving):
    token = misbehaving("FeeToken", 30)
    world.send(token.functions.mint(world.depositor.address, 1_000), world.deployer)

    world.assert_refused(world.deposit(token, 30), world.depositor, NOTHING_ARRIVED)
