"""`GET /healthz` and `GET /readyz`: for the platform, without a key."""

from datetime import timedelta

import pytest
from django.conf import settings

from allowance.kernel.times import utc_now
from chains.catalogue import find_chain
from payments.models import ChainState, Relayer
from policy.operations import switch_signer

CHAINS = ("evm-localnet", "solana-localnet")
PARTS = {"database", "broker", "signer", *CHAINS}


def test_a_process_that_answers_is_alive(anonymous):
    response = anonymous.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "alive"})


def test_an_installation_that_can_pay_is_ready(anonymous):
    response = anonymous.get("/readyz")

    assert (response.status_code, response.json()) == (200, {"status": "ready", "checks": dict.fromkeys(PARTS, "ok")})


@pytest.mark.parametrize(
    ("part", "trouble"),
    [
        ("signer", lambda: switch_signer(is_signing=False, by="test")),
        ("broker", lambda: setattr(settings, "REDIS_URL", "redis://127.0.0.1:1")),
    ],
)
def test_an_installation_that_cannot_pay_names_the_part_and_nothing_else(anonymous, settings, part, trouble):
    settings.REDIS_URL = str(settings.REDIS_URL)  # put back after the test
    trouble()

    assert_only_not_ready(anonymous.get("/readyz"), part)


@pytest.mark.parametrize("alias", CHAINS)
@pytest.mark.parametrize(
    "trouble",
    [
        lambda chain: ChainState.objects.filter(chain=chain).update(observed_at=utc_now() - timedelta(days=2)),
        lambda chain: ChainState.objects.filter(chain=chain).update(mismatch="The escrow is at 127.0.0.1."),
        lambda chain: ChainState.objects.filter(chain=chain).update(stopped_reason="Missing at 127.0.0.1."),
        lambda chain: Relayer.objects.filter(chain=chain).update(is_enabled=False),
    ],
    ids=["not observed", "mismatch", "stopped", "no relayer"],
)
def test_a_chain_that_nothing_is_paid_on_is_named_and_no_other(anonymous, alias, trouble):
    chain = find_chain(alias)
    assert chain
    trouble(chain.caip2)

    assert_only_not_ready(anonymous.get("/readyz"), alias)


def assert_only_not_ready(response, part):
    checks = response.json()["checks"]
    assert (response.status_code, response.json()["status"]) == (503, "not ready")
    assert {name for name, state in checks.items() if state != "ok"} == {part}
    assert b"127.0.0.1" not in response.content


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"mismatch": "The escrow's policy signer is another."}, "not what is configured"),
        ({"stopped_reason": "Money is missing."}, "signing is stopped"),
        ({"mismatch": "Another chain.", "stopped_reason": "Money is missing."}, "not what is configured"),
    ],
)
def test_a_chain_that_nothing_is_paid_on_says_why_in_a_word(anonymous, found, said):
    ChainState.objects.update(**found)

    assert anonymous.get("/readyz").json()["checks"]["evm-localnet"] == said
