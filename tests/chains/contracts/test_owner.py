"""What the owner sets, ownership, deployment."""

import pytest
from eth_utils.address import to_checksum_address

from tests.chains.contracts.refusals import (
    MANY_RELAYERS,
    NO_OWNER,
    NOT_OWNER,
    OWNER_NEEDED,
    TWO_ROLES,
    WRONG_SIGNATURE,
    ZERO_ADDRESS,
)
from tests.chains.contracts.world import ESCROW, FUNDS, ZERO

# The owner's settings.


def owner_calls(world):
    functions = world.escrow.functions
    someone = world.stranger.address
    return {
        "setRelayer": functions.setRelayer(someone, True),
        "setPolicySigner": functions.setPolicySigner(someone),
        "setDailyCap": functions.setDailyCap(world.token.address, FUNDS),
        "withdraw": functions.withdraw(world.token.address, someone, 1),
        "pause": functions.pause(),
        "unpause": functions.unpause(),
        "transferOwnership": functions.transferOwnership(someone),
    }


@pytest.mark.parametrize("who", ["stranger", "deployer", "relayer", "signer"])
@pytest.mark.parametrize(
    "name",
    [
        "setRelayer",
        "setPolicySigner",
        "setDailyCap",
        "withdraw",
        "pause",
        "unpause",
        "transferOwnership",
    ],
)
def test_what_the_owner_may_do_is_refused_to_everyone_else(world, name, who):
    world.assert_refused(owner_calls(world)[name], getattr(world, who), NOT_OWNER)


def test_enabling_and_disabling_a_relayer_is_announced(world):
    set_relayer = world.escrow.functions.setRelayer
    someone = world.stranger.address

    enabled = world.send(set_relayer(someone, True), world.owner)
    assert world.escrow.functions.relayers(someone).call() is True
    disabled = world.send(set_relayer(someone, False), world.owner)
    assert world.escrow.functions.relayers(someone).call() is False

    event = world.escrow.events.RelayerSet
    assert world.events(event, enabled) == [{"relayer": someone, "enabled": True}]
    assert world.events(event, disabled) == [{"relayer": someone, "enabled": False}]


def test_setting_a_cap_is_announced(world):
    receipt = world.send(world.escrow.functions.setDailyCap(world.token.address, 42), world.owner)

    assert world.escrow.functions.dailyCap(world.token.address).call() == 42
    assert world.events(world.escrow.events.DailyCapSet, receipt) == [{"token": world.token.address, "cap": 42}]


def test_after_a_rotation_only_the_new_policy_signer_counts(world):
    payment = world.payment()
    by_the_old = world.sign(payment)
    by_the_new = world.sign(payment, signer=world.new_signer)
    world.assert_refused(world.pay(payment, by_the_new), world.relayer, WRONG_SIGNATURE)

    receipt = world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    assert world.events(world.escrow.events.PolicySignerSet, receipt) == [
        {"previous": world.signer.address, "current": world.new_signer.address}
    ]
    assert world.escrow.functions.policySigner().call() == world.new_signer.address
    world.assert_refused(world.pay(payment, by_the_old), world.relayer, WRONG_SIGNATURE)
    world.send(world.pay(payment, by_the_new), world.relayer)


def test_the_zero_address_gets_no_role(world):
    functions = world.escrow.functions

    world.assert_refused(functions.setRelayer(ZERO, True), world.owner, ZERO_ADDRESS)
    world.assert_refused(functions.setPolicySigner(ZERO), world.owner, ZERO_ADDRESS)


def test_one_key_cannot_be_relayer_and_policy_signer(world):
    functions = world.escrow.functions

    world.assert_refused(functions.setRelayer(world.signer.address, True), world.owner, TWO_ROLES)
    world.assert_refused(functions.setPolicySigner(world.relayer.address), world.owner, TWO_ROLES)


def test_a_former_relayer_may_become_policy_signer(world):
    functions = world.escrow.functions
    world.send(functions.setRelayer(world.other_relayer.address, False), world.owner)

    world.send(functions.setPolicySigner(world.other_relayer.address), world.owner)

    assert functions.policySigner().call() == world.other_relayer.address


# Ownership.


def test_ownership_passes_only_when_the_new_owner_accepts(world):
    functions = world.escrow.functions
    world.send(functions.transferOwnership(world.new_owner.address), world.owner)
    assert functions.owner().call() == world.owner.address
    assert functions.pendingOwner().call() == world.new_owner.address
    world.assert_refused(functions.pause(), world.new_owner, NOT_OWNER)

    world.send(functions.acceptOwnership(), world.new_owner)

    assert functions.owner().call() == world.new_owner.address
    assert functions.pendingOwner().call() == ZERO
    world.assert_refused(functions.pause(), world.owner, NOT_OWNER)
    world.send(functions.pause(), world.new_owner)


def test_nobody_else_can_accept_the_ownership(world):
    functions = world.escrow.functions
    world.send(functions.transferOwnership(world.new_owner.address), world.owner)

    world.assert_refused(functions.acceptOwnership(), world.stranger, NOT_OWNER)


@pytest.mark.parametrize("who", ["owner", "stranger"])
def test_the_ownership_cannot_be_given_up(world, who):
    world.assert_refused(world.escrow.functions.renounceOwnership(), getattr(world, who), OWNER_NEEDED)

    assert world.escrow.functions.owner().call() == world.owner.address


# Deployment.


def test_a_new_escrow_has_the_roles_it_was_given_and_pays_nothing(world):
    functions = world.escrow.functions

    assert functions.owner().call() == world.owner.address
    assert functions.policySigner().call() == world.signer.address
    assert functions.relayers(world.relayer.address).call()
    assert functions.relayers(world.other_relayer.address).call()
    assert not functions.relayers(world.deployer.address).call()
    assert not functions.paused().call()
    assert world.deploy_escrow().functions.dailyCap(world.token.address).call() == 0


@pytest.mark.parametrize(
    ("missing", "reason"), [("owner", NO_OWNER), ("policy_signer", ZERO_ADDRESS), ("relayer", ZERO_ADDRESS)]
)
def test_an_escrow_with_a_zero_address_is_not_deployed(world, missing, reason):
    roles = {
        "owner": world.owner.address,
        "policy_signer": world.signer.address,
        "relayer": world.relayer.address,
    } | {missing: ZERO}

    world.assert_refused(
        world.constructor(ESCROW, roles["owner"], roles["policy_signer"], [roles["relayer"]]),
        world.deployer,
        reason,
    )


def test_an_escrow_whose_policy_signer_is_a_relayer_is_not_deployed(world):
    signer = world.signer.address

    world.assert_refused(
        world.constructor(ESCROW, world.owner.address, signer, [signer]),
        world.deployer,
        TWO_ROLES,
    )


def many(count: int) -> list[str]:
    return [to_checksum_address(f"0x{number:040x}") for number in range(1_000, 1_000 + count)]


def test_an_escrow_is_deployed_with_64_relayers(world):
    relayers = many(64)

    escrow = world.deploy(ESCROW, world.owner.address, world.signer.address, relayers)

    assert escrow.functions.relayers(relayers[0]).call()
    assert escrow.functions.relayers(relayers[-1]).call()


def test_an_escrow_with_65_relayers_is_not_deployed(world):
    world.assert_refused(
        world.constructor(ESCROW, world.owner.address, world.signer.address, many(65)),
        world.deployer,
        MANY_RELAYERS,
    )
