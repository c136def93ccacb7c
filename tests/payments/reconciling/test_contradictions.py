"""A node that contradicts the others is named by its number in the console, in metrics and by the doctor."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from backoffice.alarms.looking import look
from backoffice.models import Alarm
from chains.port import Contradiction
from foundation.console.links import row_page
from foundation.findings import Finder
from foundation.kernel.times import format_instant, utc_now
from operators.doctor.diagnoses import diagnosis_of
from payments.findings.chains import NODES, find_lying_nodes
from payments.models import ChainState
from payments.queries import CONTRADICTS_FOR, find_contradicting_nodes
from payments.reconciling.contradictions import record_contradictions
from payments.tasks import watch_deposits
from tests.support.api import Api
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.local_ids import LOCALNET

pytestmark = pytest.mark.django_db
SECRET = "a-key-of-the-provider"
SENTENCE = "evm-localnet: node 2 of 3 contradicts the others about block 7."
LYING = Finder(find_lying_nodes, (NODES,))


@pytest.fixture
def three(settings: Any) -> None:
    """Serve the local chain by three addresses."""
    served = settings.CHAINS[LOCALNET]
    urls = tuple(f"http://127.0.0.1:{port}/{SECRET}" for port in (1, 2, 3))
    settings.CHAINS = {**settings.CHAINS, LOCALNET: replace(served, rpc_urls=urls)}


@pytest.fixture
def chain(three: None, monkeypatch: pytest.MonkeyPatch) -> FakeChain:
    """A chain in the place of the local one: what its nodes say is the test's."""
    found = replace(make_fake_chain(), name=LOCALNET)
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {LOCALNET: found})
    return found


def record(chain: FakeChain, *found: tuple[int, str]) -> None:
    chain.contradictions = [Contradiction(*one) for one in found]
    record_contradictions(LOCALNET, chain)


def recorded() -> dict[str, str]:
    contradictions = ChainState.objects.get(chain=LOCALNET).contradictions
    return {number: one["about"] for number, one in contradictions.items()}


def date(number: int, ago: timedelta) -> None:
    """Let a contradiction have been noticed so long ago."""
    state = ChainState.objects.get(chain=LOCALNET)
    state.contradictions[str(number)]["at"] = format_instant(utc_now() - ago)
    state.save()


@pytest.mark.parametrize("is_away", [False, True], ids=["the step ends", "the step is tried again"])
def test_what_a_step_of_the_worker_notices_is_recorded(chain, is_away):
    chain.contradictions, chain.is_away = [Contradiction(2, "block 7")], is_away

    watch_deposits(LOCALNET)

    assert recorded() == {"2": "block 7"}
    assert chain.contradictions == []


def test_the_newest_of_each_node_is_kept_and_written_no_more_than_once_a_minute(chain):
    record(chain, (2, "block 7"), (3, "block 8"))
    record(chain, (2, "block 9"))
    assert recorded() == {"2": "block 7", "3": "block 8"}

    date(2, timedelta(minutes=1, seconds=1))
    record(chain, (2, "block 9"))
    assert recorded() == {"2": "block 9", "3": "block 8"}


def test_of_a_chain_that_was_never_observed_nothing_is_recorded(chain):
    ChainState.objects.filter(chain=LOCALNET).delete()

    record(chain, (2, "block 7"))

    assert not ChainState.objects.filter(chain=LOCALNET).exists()


@pytest.mark.parametrize(("ago", "is_found"), [(timedelta(seconds=-5), True), (timedelta(seconds=5), False)])
def test_a_node_counts_as_contradicting_for_an_hour(chain, ago, is_found):
    record(chain, (2, "block 7"))
    date(2, CONTRADICTS_FOR + ago)

    assert [str(one) for one in find_contradicting_nodes(utc_now())] == [SENTENCE] * is_found


def test_a_node_that_is_not_configured_any_more_is_forgotten(chain, settings):
    record(chain, (2, "block 7"), (3, "block 8"))
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS[LOCALNET] = replace(served, rpc_urls=served.rpc_urls[:2])

    assert [one.number for one in find_contradicting_nodes(utc_now())] == [2]


def test_the_console_raises_an_alarm_and_clears_it_an_hour_later(chain):
    record(chain, (2, "block 7"))
    (item,) = find_lying_nodes()
    assert (item.kind.name, item.says, item.severity, item.subject) == ("nodes", SENTENCE, "warning", LOCALNET)

    look(utc_now(), [LYING])
    (alarm,) = Alarm.objects.filter(kind="nodes")
    assert (alarm.sentence, alarm.is_over) == (SENTENCE, False)
    date(2, CONTRADICTS_FOR + timedelta(minutes=1))
    for minutes in (0, 6):
        look(utc_now() + timedelta(minutes=minutes), [LYING])

    alarm.refresh_from_db()
    assert alarm.is_over


def test_the_page_of_the_chain_the_metrics_and_the_doctor_name_it_too(chain, admin_client, anonymous: Api, settings):
    settings.METRICS_TOKEN = "a-token-that-nobody-guesses"
    record(chain, (2, "block 7"))

    page = admin_client.get(row_page("payments_chainstate", LOCALNET), follow=True).content.decode()
    metrics = anonymous.get("/metrics", authorization=f"Bearer {settings.METRICS_TOKEN}").content.decode()
    (finding,) = map(diagnosis_of, find_lying_nodes())

    assert SENTENCE in page
    lines = [
        line for line in metrics.splitlines() if line.startswith('allowance_node_contradicts{chain="evm-localnet"')
    ]
    assert [line.rpartition(" ")[2] for line in lines] == ["0.0", "1.0", "0.0"]
    assert 'node="2"' in lines[1]
    assert (finding.subject, finding.state) == ("nodes evm-localnet", "warning")
    assert finding.says.startswith(SENTENCE)
    assert "docs/operate/lying-provider.md" in finding.mend
    assert SECRET not in page + metrics + str(finding) + str(recorded())
