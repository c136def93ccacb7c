"""`GET /healthz` and `GET /readyz`: for the platform, without a key."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from redis import Redis

from chains.catalogue import find_chain
from foundation.environment.process_types import ProcessType
from foundation.heartbeats import AWAY_AFTER_S, key_of
from foundation.kernel.times import utc_now
from payments.models import ChainState, Relayer
from policy.operations import switch_signer
from tests.support.heartbeats import NAME, hearts_that_beat, make_heartbeat

CHAINS = ("evm-localnet", "solana-localnet")
PARTS = {"database", "broker", "worker", "beat", "signer", *CHAINS}


@pytest.fixture(autouse=True)
def heartbeats() -> Iterator[Redis]:
    with hearts_that_beat() as redis:
        yield redis


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


@pytest.mark.parametrize("process", [ProcessType.WORKER, ProcessType.BEAT])
@pytest.mark.parametrize(
    ("age_s", "said"), [(None, "has not been seen"), (AWAY_AFTER_S + 1, "has been away"), (AWAY_AFTER_S - 1, "ok")]
)
def test_a_process_that_payments_need_is_named_while_it_is_away(anonymous, heartbeats, process, age_s, said):
    heartbeats.delete(key_of(process, NAME))
    if age_s is not None:
        make_heartbeat(heartbeats, process, age_s=age_s)
        make_heartbeat(heartbeats, process, age_s=age_s + 100, name="gone:1")  # it does not hide the other

    assert anonymous.get("/readyz").json()["checks"] == {**dict.fromkeys(PARTS, "ok"), process: said}


def test_a_flood_of_questions_asks_the_database_no_more_often(anonymous, django_assert_num_queries, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 1.0)
    anonymous.get("/readyz")

    with django_assert_num_queries(0):
        anonymous.get("/readyz")


def test_payments_go_on_without_webhooks(anonymous, heartbeats):
    heartbeats.delete(key_of(ProcessType.WEBHOOKS, NAME))

    assert anonymous.get("/readyz").status_code == 200


def test_without_redis_nobody_knows_who_is_away(anonymous, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1"

    assert anonymous.get("/readyz").json()["checks"].keys() == PARTS - {"worker", "beat"}


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
