"""Whoever has one key, a changed payload or a changed 402 gets nothing from us, nor from a real facilitator."""

import copy
import os
import time
from datetime import UTC, datetime

import pytest

from chains.evm.derivation import derive_account, sign_digest
from chains.evm.escrow_calls import domain_separator, transfer_digest, transfer_words
from chains.evm.secp256k1 import SigningKey
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from payments.models import ChainState, Payment
from policy.signer import local_signer
from tests.chains.adapter.anvil_node import has_program
from tests.payments.x402.stage import CHAIN, MOST_UNITS, NETWORK, open_shop
from tests.support.answers import error_of
from tests.support.evm_escrow import token
from tests.support.factories import new_address
from tests.support.javascript import needs_node
from tests.support.local_ids import LOCALNET

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
pytestmark = [needs_node, has_program, pytest.mark.long(60)]
PRICE = 1_250_000


@pytest.fixture
def shop(chain, payee):
    with open_shop(chain, payee.address, amount=PRICE) as opened:
        yield opened


def by_relayer(digest):
    return sign_digest(derive_account(held_key("RELAYER_SEED"), 0)[0], digest)


def by_signer(digest):
    return local_signer().cosign_digest(digest)


def by_thief(digest):
    return sign_digest(SigningKey(os.urandom(32)), digest)


def forge(chain, wanted, *, relayer, signer):
    """Sign what the shop asks for with whatever keys a thief has."""
    nonce, until = "0x" + os.urandom(32).hex(), int(time.time()) + 60
    words = transfer_words(chain.token, wanted["payTo"], int(wanted["amount"]), until, nonce)
    assert CHAIN is not None
    separator = domain_separator("USD Coin", "2", CHAIN.chain_id, chain.token)
    digest = transfer_digest(separator, chain.escrow, words)
    said = {"from": chain.escrow, "to": wanted["payTo"], "value": wanted["amount"], "validAfter": "0"}
    said |= {"validBefore": str(until), "nonce": nonce}
    signature = "0x" + (words + relayer(digest) + signer(digest)).hex()
    return {"x402Version": 2, "accepted": wanted, "payload": {"signature": signature, "authorization": said}}


def assert_refused(chain, shop, payload, wanted):
    """Check that the facilitator neither verifies nor settles it, and that no money moved."""
    before = chain.held()
    assert shop.ask("verify", payload, wanted)["isValid"] is False
    assert shop.ask("settle", payload, wanted)["success"] is False
    assert shop.visit(payload).status_code == 402
    assert chain.held() == before


# --- Thieves ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("relayer", "signer"),
    [(by_relayer, by_thief), (by_thief, by_signer), (by_relayer, by_relayer), (by_signer, by_signer)],
    ids=["relayer's key", "policy signer's key", "relayer's twice", "policy signer's twice"],
)
def test_a_thief_with_one_key_gets_nothing_of_a_facilitator(chain, shop, relayer, signer):
    wanted = shop.requirements()

    assert_refused(chain, shop, forge(chain, wanted, relayer=relayer, signer=signer), wanted)


def test_both_keys_together_are_what_the_thief_lacked(chain, shop):
    wanted = shop.requirements()

    payload = forge(chain, wanted, relayer=by_relayer, signer=by_signer)

    assert shop.ask("verify", payload, wanted)["isValid"] is True


@pytest.mark.parametrize("member", ["value", "to", "validBefore", "nonce"])
def test_a_payload_that_was_changed_is_refused(chain, shop, demand, member):
    wanted = shop.requirements()
    payload = copy.deepcopy(demand(wanted).json()["paymentPayload"])
    authorization = payload["payload"]["authorization"]
    changes = {
        "value": str(PRICE * 2),
        "to": new_address(),
        "validBefore": str(int(authorization["validBefore"]) + 60),
        "nonce": "0x" + "ab" * 32,
    }
    authorization[member] = changes[member]
    asked = {**wanted, "amount": authorization["value"], "payTo": authorization["to"]}
    payload["accepted"] = asked

    assert_refused(chain, shop, payload, asked)


# --- Changed demands --------------------------------------------------------------------------------------------------
def test_a_402_that_names_another_recipient_is_refused_and_logged(chain, shop, demand, agent):
    refused = demand(shop.requirements() | {"payTo": new_address()})

    error_of(refused, 403, "service_not_approved")
    assert LogEntry.objects.get(agent=agent).result == "blocked"
    assert not Payment.objects.filter(agent=agent).exists()


def test_a_402_that_names_another_chain_is_refused(chain, shop, demand):
    refused = demand(shop.requirements() | {"network": LOCALNET, "asset": token(Asset.USDC)})

    error_of(refused, 403, "service_not_approved")


def test_a_402_of_a_service_that_nobody_registered_is_refused(shop, demand):
    refused = demand(shop.requirements(), service="unknown")

    error_of(refused, 403, "service_not_approved")


def test_a_402_over_a_limit_is_refused_as_any_payment(shop, demand, agent):
    refused = demand(shop.requirements() | {"amount": "10000001"})

    assert error_of(refused, 422, "budget_exceeded")["rule"] == "under_max_payment"


@pytest.mark.parametrize(
    "changes", [{"extra": {"name": "USDC", "version": "2"}}, {"amount": str(MOST_UNITS + 1)}], ids=["domain", "most"]
)
def test_what_the_escrow_would_not_authorize_is_400_and_the_key_stays_free(shop, demand, agent, changes):
    wanted = shop.requirements()

    refused, right = demand(wanted | changes, "the key"), demand(wanted, "the key")

    error_of(refused, 400, "invalid_request")
    assert right.status_code == 201
    assert Payment.objects.filter(agent=agent).count() == 1


def test_an_escrow_whose_owner_has_not_allowed_it_is_told(chain, shop, demand, agent):
    chain.limit(0)
    ChainState.objects.filter(chain=NETWORK).update(checked_at=LONG_AGO)  # the contracts are looked at once a minute
    try:
        refused = demand(shop.requirements())
    finally:
        chain.limit(MOST_UNITS)

    (field,) = error_of(refused, 400, "invalid_request")["fields"]
    assert "setAuthorizationLimits" in field["message"]
    assert not Payment.objects.filter(agent=agent, chain=NETWORK).exists()
