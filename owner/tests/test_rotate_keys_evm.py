"""`manage.py rotate_keys` on the real EVM chain: each runbook of docs/operate/keys.md, tried as it is written."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from eth_account import Account

from owner.tests.evm_rotation import HALF_AN_ETHER, OWNER, Escrow, calldata, give_gas_money, relayers, send
from owner.tests.rotations import Keys, status
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import ChainState, Relayer, Settlement
from payments.settling.relayers import find_rotation
from services.served_chains import evm_chain
from tests.support.embedded_nodes import deployer_key
from tests.support.evm_escrow import rpc
from tests.support.factories import make_service, new_address
from tests.support.localnets import EVM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]


@pytest.fixture
def escrow():
    return Escrow()


NEW_KEYS = {
    "both": lambda _old: Keys(),
    "the policy signer": lambda old: Keys(seed=old.seed),
    "the relayers": lambda old: Keys(evm=old.evm),
}


# --- Planned ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("choose", NEW_KEYS.values(), ids=NEW_KEYS)
def test_a_planned_rotation_waits_for_what_is_in_flight_and_payments_go_on_with_the_new_keys(escrow, choose):
    old, new = escrow.keys, choose(escrow.keys)
    before, after = make_service(), make_service()
    give_gas_money(new)
    first = escrow.pay(escrow.agent, before, "1.50")

    waiting = escrow.rotate(new, OWNER, "--no-wait").result

    assert not waiting["done"]
    assert "1 payments" in waiting["waitingFor"]
    assert all(escrow.knows(one) for one in [*relayers(old), *relayers(new)])
    assert escrow.signer == int(Account.from_key(old.evm).address, 16)
    assert escrow.is_refused()

    escrow.work_until_nothing_is_in_flight()
    done = escrow.rotate(new, OWNER)

    assert done.result["done"]
    assert done.result["relayersWithoutGasMoney"] == []
    assert (status(first), escrow.has(before)) == (PaymentStatus.SETTLED, 1_500_000)
    assert escrow.signer == int(Account.from_key(new.evm).address, 16)
    gone = set(relayers(old)) - set(relayers(new))
    assert not any(escrow.knows(one) for one in gone)
    assert all(escrow.knows(one) for one in relayers(new))

    escrow.restart(new)
    escrow.look()
    escrow.run("start_chain", "evm-localnet")
    assert escrow.mismatches() == []
    with escrow.running():
        assert find_rotation(escrow.caip2, evm_chain(escrow.caip2)) == relayers(new)
    second = escrow.pay(escrow.agent, after, "2.00")
    escrow.work_until_nothing_is_in_flight()

    assert (status(second), escrow.has(after)) == (PaymentStatus.SETTLED, 2_000_000)
    assert second.settlements.get().relayer.address in relayers(new)
    assert not Relayer.objects.filter(address__in=gone, is_enabled=True).exists()
    assert escrow.balance == Decimal("96.5")
    assert escrow.rotate(new, OWNER).result["done"]


def test_an_owner_elsewhere_is_told_what_to_call_and_a_safe_gets_it_in_one_file():
    owner = Account.create()
    assert send(deployer_key(), owner.address, value=HALF_AN_ETHER)
    escrow = Escrow(owner=owner.address)
    old, new = escrow.keys, Keys()

    for _ in range(2):
        asked = escrow.rotate(new, {}, "--no-wait")
        assert not asked.result["done"]
        (batch,) = [json.loads(line) for line in asked.lines[:-1]]
        assert batch["chainId"] == "31337"
        for one in batch["transactions"]:
            assert send(owner.key, one["to"], one["data"])

    done = escrow.rotate(new, {})
    assert done.result["done"]
    # Nobody has given them any yet.
    assert done.result["relayersWithoutGasMoney"] == relayers(new)
    assert [escrow.knows(one) for one in [*relayers(old), *relayers(new)]] == [False, False, True, True]


# --- Theft ------------------------------------------------------------------------------------------------------------
def test_who_stole_the_relayers_seed_pays_nobody_twice_and_nothing_more_once_it_is_rotated(escrow):
    old, new = escrow.keys, Keys(evm=escrow.keys.evm)
    paid, unpaid = make_service(), make_service()
    give_gas_money(new)
    first, second = escrow.pay(escrow.agent, paid, "1.00"), escrow.pay(escrow.agent, unpaid, "2.00")
    # The thief is faster than we are.
    assert escrow.thief(old, first)

    rotation = escrow.rotate(new, OWNER, "--now")

    assert rotation.result["done"]
    assert not escrow.thief(old, second)
    assert not escrow.thief(old, first)
    escrow.restart(new)
    escrow.work_until_nothing_is_in_flight()
    assert (status(first), escrow.has(paid)) == (PaymentStatus.SETTLED, 1_000_000)
    assert (status(second), escrow.has(unpaid)) == (PaymentStatus.FAILED, 0)
    assert escrow.balance == 99
    assert not escrow.thief(old, second)
    assert second.settlements.get(is_void=True).relayer.address in relayers(new)

    escrow.run("start_chain", "evm-localnet")
    third = escrow.pay(escrow.agent, unpaid, "3.00")
    escrow.work_until_nothing_is_in_flight()
    assert (status(third), escrow.has(unpaid)) == (PaymentStatus.SETTLED, 3_000_000)
    assert escrow.balance == 96


def test_who_stole_the_policy_key_moves_nothing_and_what_it_had_signed_is_given_back(escrow):
    old, new = escrow.keys, Keys(seed=escrow.keys.seed)
    payee = make_service()
    payment = escrow.pay(escrow.agent, payee, "2.00")

    assert escrow.rotate(new, OWNER, "--now").result["done"]

    # The thief signs for himself, and submits it with an account of his own; even an honest relayer could not.
    forged = calldata(payment).replace(payee.address.lower()[2:], new_address()[2:])
    assert not send(deployer_key(), escrow.escrow, forged)
    assert not escrow.thief(old, payment)
    escrow.restart(new)
    escrow.work_until_nothing_is_in_flight()
    assert (status(payment), escrow.has(payee), escrow.balance) == (PaymentStatus.FAILED, 0, 100)
    assert escrow.mismatches() == []


# --- Loss -------------------------------------------------------------------------------------------------------------
def test_what_a_lost_relayer_never_gets_into_a_block_is_signed_again_by_the_new_ones(escrow):
    new, payee = Keys(evm=escrow.keys.evm), make_service()
    give_gas_money(new)
    payment = escrow.pay(escrow.agent, payee, "2.00", PAYMENT_VALIDITY_S=1)
    (lost,) = payment.settlements.all()

    assert escrow.rotate(new, OWNER, "--now").result["done"]
    escrow.restart(new)
    escrow.look()
    escrow.run("start_chain", "evm-localnet")
    while int(rpc("eth_getBlockByNumber", "finalized", False)["timestamp"], 16) <= lost.valid_until.timestamp():
        EVM.mine()
    # A gap in the line of the lost relayer, which nobody can fill any more.
    Settlement.objects.filter(pk=lost.pk).update(nonce=lost.nonce + 1)
    Relayer.objects.filter(pk=lost.relayer_id).update(next_nonce=lost.nonce + 2)
    escrow.work_until_nothing_is_in_flight()

    assert Settlement.objects.get(pk=lost.pk).state == SettlementState.EXPIRED
    assert (status(payment), escrow.has(payee), escrow.balance) == (PaymentStatus.SETTLED, 2_000_000, 98)
    assert payment.settlements.get(state=SettlementState.FINAL).relayer.address in relayers(new)


def test_a_lost_policy_key_is_replaced_and_what_it_had_signed_is_given_back_or_paid_but_never_both(escrow):
    new = Keys(seed=escrow.keys.seed)
    landed, other = make_service(), make_service()
    first = escrow.pay(escrow.agent, landed, "1.00")
    escrow.work()
    second = escrow.pay(escrow.agent, other, "2.00")

    assert escrow.rotate(new, OWNER, "--now").result["done"]
    escrow.restart(new)
    escrow.work_until_nothing_is_in_flight()

    assert (status(first), status(second)) == (PaymentStatus.SETTLED, PaymentStatus.FAILED)
    assert (escrow.has(landed), escrow.has(other), escrow.balance) == (1_000_000, 0, 99)


# --- What is not done -------------------------------------------------------------------------------------------------
def test_nothing_is_sent_while_the_chain_is_what_is_configured(escrow):
    before = rpc("eth_getTransactionCount", Account.from_key(deployer_key()).address)

    done = escrow.rotate(escrow.keys, OWNER)

    assert done.result["done"]
    assert rpc("eth_getTransactionCount", Account.from_key(deployer_key()).address) == before
    assert ChainState.objects.get(chain=escrow.caip2).stopped_reason == ""


def test_a_malformed_owner_key_is_named_and_not_told(escrow):
    failed = escrow.rotate(replace(escrow.keys, evm=b"\x11" * 32), {"DEPLOYER_KEY": "secret-value"})

    assert "DEPLOYER_KEY" in failed.error
    assert "secret-value" not in failed.error
