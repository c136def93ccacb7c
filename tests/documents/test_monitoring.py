"""What operators watch with: the page, the alert rules and the dashboard name what a real scrape has."""

import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from backoffice.findings import KINDS
from foundation.kernel.counters import COUNTERS
from operators.metrics.exposition import read_metrics
from payments.models import ChainState, Reconciliation, Relayer
from tests.documents.pages import ROOT, text_of

FOLDER = ROOT / "deploy/monitoring"
NOT_OURS = "AllowanceDown"  # of Prometheus' own metric `up`
ROWS = re.findall(r"^\| `(allowance_\w+)` \| .* \| (.*) ?\|$", text_of("docs/operate/monitoring.md"), re.MULTILINE)
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
# Alerts of what the console's alarms tell, too: whoever is woken by either is sent to the same page.
KIND_OF_ALERT = {
    "AllowanceMoneyMissing": "missing",
    "AllowanceUnconfirmedPayments": "unconfirmed",
    "AllowanceNotCompared": "comparisons",
    "AllowancePromisesExceedHoldings": "pools",
    "AllowanceOutflowNotBooked": "outflows",
    "AllowanceChainStopped": "chains",
    "AllowanceChainMismatched": "mismatch",
    "AllowanceAssetOutOfService": "assets",
    "AllowanceChainNotSeen": "unseen",
    "AllowanceNodeContradicts": "nodes",
    "AllowanceNoRelayer": "rotation",
    "AllowancePaymentWaits": "unsettled",
    "AllowancePaymentsFail": "failed",
    "AllowanceWebhooksOverdue": "webhooks overdue",
    "AllowanceProcessAway": "processes",
    "AllowanceWebhooksAway": "processes",
    "AllowanceTwoSchedulers": "schedulers",
    "AllowanceServerAway": "servers",
}
with_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and os.environ.get("CI") != "true", reason="promtool is not installed"
)


@pytest.fixture
def families(db: None) -> list[Metric]:
    return list(text_string_to_metric_families(read_metrics().decode()))


def samples_of(families: list[Metric]) -> set[str]:
    return {sample.name for family in families for sample in family.samples}


def promtool(*arguments: str, cwd: Path = FOLDER, **options: Any) -> str:
    command = ["promtool", *arguments]
    done = subprocess.run(
        command, check=False, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    said = str(done.stdout)
    assert done.returncode == 0, said
    return said


def test_the_page_has_a_row_for_every_metric_and_no_other(families):
    assert sorted(name for name, _ in ROWS) == sorted(family.name for family in families)


def test_every_metric_has_a_value_from_the_start(db):
    for model in (ChainState, Relayer, Reconciliation):
        model.objects.all().delete()

    families = list(text_string_to_metric_families(read_metrics().decode()))

    assert {counter.name for counter in COUNTERS} <= {family.name.removeprefix("allowance_") for family in families}
    assert [family.name for family in families if not family.samples] == ["allowance_relayer_gas_balance"]
    # Processes of other tests have left their last signs of life in Redis.
    aged = [one for one in families if one.name.endswith("_age_seconds") and "heartbeat" not in one.name]
    assert {sample.value for one in aged for sample in one.samples} == {0, math.inf}


@with_promtool
def test_a_scrape_is_what_prometheus_reads(db):
    assert "error" not in promtool("check", "metrics", input=read_metrics().decode())


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
def test_rules_and_dashboard_name_only_metrics_that_there_are(families, name):
    text = (FOLDER / name).read_text()

    named = set(re.findall(r"allowance_\w+", text))

    assert named
    assert named - samples_of(families) == set()


def test_the_dashboard_shows_every_metric(families):
    text = (FOLDER / "dashboard.json").read_text()
    board = json.loads(text)

    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert [family.name for family in families if family.name not in text] == []


def test_every_row_with_an_alert_has_its_rule_and_every_rule_its_row():
    told = {(alert, metric) for metric, cell in ROWS for alert in re.findall(r"`(Allowance\w+)`", cell)}

    assert told
    for alert, metric in told:
        (rule,) = [rule for rule in RULES if rule["alert"] == alert]
        assert metric in rule["expr"]
    assert {rule["alert"] for rule in RULES} - {alert for alert, _ in told} == {NOT_OURS}


def test_every_alert_says_how_bad_it_is_and_links_to_a_page_that_there_is():
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page = rule["annotations"]["runbook_url"]
        assert page.startswith("docs/operate/")
        assert (ROOT / page).is_file(), page


def test_every_alert_is_tested_to_fire_and_to_be_silent():
    tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    cases = [(case["alertname"], bool(case["exp_alerts"])) for one in tests for case in one["alert_rule_test"]]

    assert sorted(cases) == sorted((rule["alert"], fires) for rule in RULES for fires in (False, True))


@pytest.mark.parametrize(("alert", "kind"), KIND_OF_ALERT.items(), ids=KIND_OF_ALERT)
def test_an_alert_and_the_alarm_of_the_same_thing_lead_to_the_same_page(alert, kind):
    (rule,) = [one for one in RULES if one["alert"] == alert]

    assert rule["annotations"]["runbook_url"] == f"docs/{KINDS[kind].runbook.partition('#')[0]}.md"


@with_promtool
def test_the_alerts_do_what_their_tests_say():
    promtool("check", "rules", "alerts.yaml")
    promtool("test", "rules", "alerts_test.yaml")


@with_promtool
def test_the_example_of_prometheus_is_one(tmp_path):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    (tmp_path / "metrics-token").write_text("a token")

    promtool("check", "config", "prometheus.yml", cwd=tmp_path)
    assert yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["job_name"] == "allowance"
