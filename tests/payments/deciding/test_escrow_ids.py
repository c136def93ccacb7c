"""What an idempotency key is called on a chain: always the same, also after a backup was restored; never two payments.

The money path computes it in SQL (`payments/deciding/sql/lock_and_read.sql`), this module in Python.
"""

import hashlib

import pytest
from django.db import transaction

from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, LogEntry
from payments.deciding.escrow_ids import key_hash
from payments.deciding.operations import request_payment
from payments.models import Installation, Outflow, Payment, Settlement
from policy.models import Agent
from services.models import WebhookEvent
from tests.support.factories import make_agent, new_name
from tests.support.invariants import check_agent
from tests.support.payment_requests import environment_of, make_request
from tests.support.scenes import Scene

SALT, OTHER_SALT = bytes(32), b"\x01" * 32


@pytest.fixture
def scene(db: None) -> Scene:
    """A chain with nonces, whose escrow counts payments by our ids."""
    return Scene()


def escrow_id(agent: Agent, key: str) -> str:
    """Compute what the escrow knows a key by."""
    salt = bytes(Installation.objects.get().salt)
    return "0x" + key_hash(salt, agent.id, key).hex()


def pay(scene: Scene, key: str, agent: Agent | None = None) -> Payment:
    request = make_request(agent or scene.agent, scene.service, key=key)
    entry = request_payment(request, environment_of(scene.chain)).entry
    return Payment.objects.get(pk=entry.payment_id)


# --- The hash ---------------------------------------------------------------------------------------------------------
def test_it_is_the_salted_hash_of_the_hashes_of_agent_and_key():
    agent, key = hashlib.sha256(b"agent").digest(), hashlib.sha256(b"key").digest()
    assert key_hash(SALT, "agent", "key") == hashlib.sha256(SALT + agent + key).digest()
    assert key_hash(SALT, "agent", "key").hex() == "a9dfa71c5f8ed373c3e6dd70d71601e20c808b67b53129917d9518be912821b4"


def test_it_differs_by_salt_by_agent_and_by_key_and_where_one_ends_and_the_other_begins():
    asked = [
        (SALT, "agent", "key"),
        (OTHER_SALT, "agent", "key"),
        (SALT, "agent2", "key"),
        (SALT, "agent", "key2"),
        (SALT, "agentk", "ey"),
        (SALT, "key", "agent"),
        (SALT, "", "agentkey"),
    ]
    assert len({key_hash(*one) for one in asked}) == len(asked)
    assert {len(key_hash(*one)) for one in asked} == {32}


def test_the_installation_has_one_salt_of_its_own(db):
    installation = Installation.objects.get()
    assert len(bytes(installation.salt)) == 32
    assert bytes(installation.salt) != bytes(32)


# --- On the money path ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["k", "a key", "ключ ☃ \U0001f600", "'; --", "\\x00", "é", "e\u0301", "k" * 255])
def test_the_money_path_computes_the_same(scene, key):
    payment = pay(scene, key)
    assert payment.escrow_id == escrow_id(scene.agent, key)


def test_keys_and_agents_have_ids_of_their_own(scene):
    other = make_agent()
    payments = [pay(scene, "a"), pay(scene, "b"), pay(scene, "a", other)]
    assert len({payment.escrow_id for payment in payments}) == 3
    assert payments[2].escrow_id == escrow_id(other, "a")


def test_another_salt_makes_another_id(scene):
    before = escrow_id(scene.agent, "a")
    Installation.objects.update(salt=OTHER_SALT)
    payment = pay(scene, "a")
    assert payment.escrow_id == "0x" + key_hash(OTHER_SALT, scene.agent.id, "a").hex() != before


def test_without_a_salt_nothing_is_paid(scene):
    Installation.objects.all().delete()
    with pytest.raises(PolicySignerUnavailable):
        pay(scene, "a")
    assert not Payment.objects.filter(agent=scene.agent).exists()


def test_a_key_whose_payment_is_forgotten_has_the_same_id_again(scene):
    """After a backup was restored: the escrow refuses to pay the id again."""
    key = new_name("key")
    first = escrow_id(scene.agent, key)
    scene.pay()
    with transaction.atomic():
        assert pay(scene, key).escrow_id == first
        transaction.set_rollback(True)
    assert not LogEntry.objects.filter(agent=scene.agent, idempotency_key=key).exists()

    assert pay(scene, key).escrow_id == first


def test_on_a_chain_without_nonces_a_payment_is_known_by_its_own_id(db):
    scene = Scene(has_nonces=False)
    payment = pay(scene, "a")
    assert payment.escrow_id == payment.pk


# --- A key that the escrow has used -----------------------------------------------------------------------------------
def outflow_with(chain: str, used: str) -> Outflow:
    """Write down that something left the escrow, or was voided, under an id that nobody here knew."""
    return Outflow.objects.create(
        chain=chain,
        tx=new_name("tx"),
        log_index=0,
        block_number=1,
        amount=0,
        escrow_id=used,
        why="It is neither a payment nor a withdrawal of ours.",
        found_at=utc_now(),
    )


def test_a_key_that_the_escrow_has_used_without_us_is_a_503_that_moves_nothing(scene):
    outflow_with(scene.chain.name, escrow_id(scene.agent, "used"))
    relayer = scene.relayer()

    with pytest.raises(PolicySignerUnavailable) as refused:
        pay(scene, "used")

    assert refused.value.details["rule"] == "policy_signer_available"
    entry = LogEntry.objects.get(agent=scene.agent)
    assert (entry.result, entry.rule, entry.idempotency_key, entry.payment_id, entry.tx) == (
        ("blocked", "policy_signer_available", None, None, None)
    )
    assert "used up this Idempotency-Key" in str(entry.explanation)
    assert Agent.objects.get(pk=scene.agent.pk).balance == 1000
    assert not BalanceMovement.objects.filter(agent=scene.agent, kind="payment").exists()
    assert not Settlement.objects.filter(chain=scene.chain.name).exists()
    assert not WebhookEvent.objects.filter(service=scene.service).exists()
    assert scene.relayer().next_nonce == relayer.next_nonce
    check_agent(scene.agent.id)
    assert pay(scene, "another").status == "approved"


def test_a_key_that_was_used_by_somebody_elses_name_or_on_another_chain_is_free(scene):
    other = make_agent()
    outflow_with(scene.chain.name, escrow_id(other, "a"))
    outflow_with("another", escrow_id(scene.agent, "a"))
    assert pay(scene, "a").status == "approved"


def test_a_key_whose_payment_is_known_is_answered_as_before_whatever_left_the_escrow(scene):
    payment = pay(scene, "a")
    outflow_with(scene.chain.name, payment.escrow_id)
    request = make_request(scene.agent, scene.service, key="a")

    again = request_payment(request, environment_of(scene.chain))

    assert again.is_replay
    assert again.entry.payment_id == payment.pk
