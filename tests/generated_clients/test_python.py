"""What openapi-python-client makes of the document: nothing is dropped, and each refusal has its type."""

import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from policy.operations import pause_agent
from tests.support.factories import make_agent, make_api_key, make_service, new_name

pytestmark = pytest.mark.long(20)

# Not the name of our own client.
_NAME = "generated_client"


@pytest.fixture(scope="module")
def generated(served, tmp_path_factory):
    """The folder of the package, and what its generator said."""
    folder = tmp_path_factory.mktemp("python")
    (folder / "settings.yaml").write_text("post_hooks: []\n")
    made = subprocess.run(
        [
            sys.executable, "-m", "openapi_python_client", "generate", "--path", served, "--meta", "none",
            "--output-path", folder / _NAME, "--config", folder / "settings.yaml", "--fail-on-warning",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return SimpleNamespace(folder=folder, code=made.returncode, said=made.stdout)


@pytest.fixture
def client(generated, servers, committed, monkeypatch):
    """The generated package, a client with a key of its own, and what it asks for in the name of a new agent."""
    monkeypatch.syspath_prepend(generated.folder)
    package = importlib.import_module(_NAME)
    models = importlib.import_module(f"{_NAME}.models")
    calls = importlib.import_module(f"{_NAME}.api.payments.request_payment")
    with package.AuthenticatedClient(base_url=servers.urls[0], token=make_api_key(), timeout=30) as session:
        asked = models.PaymentRequest(
            agent_id=make_agent().id,
            service=make_service().id,
            amount="1.50",
            asset=models.Asset.USDC,
            reason="A test",
        )

        def pay(key=None, using=session, **changes):
            for name, value in changes.items():
                setattr(asked, name, value)
            return calls.sync_detailed(client=using, body=asked, idempotency_key=key or new_name("key"))

        yield SimpleNamespace(package=package, models=models, pay=pay, asked=asked)


def test_what_is_generated_without_a_name_can_stand_beside_our_own_client(served, tmp_path):
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", served]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)

    (project,) = tmp_path.iterdir()
    packages = {path.parent.name for path in project.glob("*/__init__.py")}
    assert (project.name, packages) == ("allowance-api-client", {"allowance_api_client"})
    assert packages.isdisjoint({"allowance_client", "allowance_mcp"})


def test_generating_warns_of_nothing(generated):
    assert (generated.code, "arning" in generated.said) == (0, False), generated.said


def test_every_schema_of_the_document_becomes_a_model_and_every_operation_a_function(generated, served):
    document = json.loads(served.read_text())
    models = {path.stem.replace("_", "") for path in (generated.folder / _NAME / "models").glob("[a-z]*.py")}
    functions = {path.stem for path in (generated.folder / _NAME / "api").glob("*/[a-z]*.py")}
    operations = {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation["operationId"])
        for path in document["paths"].values()
        for operation in path.values()
    }

    assert {name.lower() for name in document["components"]["schemas"]} - models == set()
    assert functions == operations


def test_the_generated_package_has_its_types_right(generated):
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", generated.folder, _NAME]

    checked = subprocess.run(command, cwd=generated.folder, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_approved_payment_is_read_as_its_model(client):
    answer = client.pay()

    assert answer.status_code == 201
    assert type(answer.parsed) is client.models.Payment
    assert (answer.parsed.amount, answer.parsed.asset) == ("1.50", client.models.Asset.USDC)


@pytest.mark.parametrize(
    ("changes", "status", "code", "rule"),
    [
        ({"amount": "11"}, 422, "budget_exceeded", "under_max_payment"),
        ({"amount": "51"}, 422, "budget_exceeded", "under_daily_limit"),
        ({"service": "nobody"}, 403, "service_not_approved", "service_approved"),
        ({"asset": "EURC"}, 400, "invalid_request", "asset_matches"),
    ],
)
def test_a_refusal_by_policy_is_read_with_its_rule_and_figures(client, changes, status, code, rule):
    if "asset" in changes:
        changes = {"asset": client.models.Asset(changes["asset"])}

    answer = client.pay(**changes)

    assert answer.status_code == status
    assert type(answer.parsed) is client.models.PolicyRefusal
    refused = answer.parsed.error
    assert type(refused) is client.models.PolicyRefusalDetail
    assert (refused.code, refused.rule) == (client.models.ErrorCode(code), client.models.Rule(rule))
    assert refused.retry is client.models.Retry.NEW_KEY
    assert refused.log_id.startswith("log_")
    if status == 422:
        assert (refused.requested, refused.limit) == (
            f"{changes['amount']}.00",
            {"11": "10.00", "51": "50.00"}[changes["amount"]],
        )


def test_a_paused_agent_is_read_as_a_refusal_by_policy(client):
    pause_agent(client.asked.agent_id, by="ann")

    answer = client.pay()

    assert type(answer.parsed) is client.models.PolicyRefusal
    assert answer.parsed.error.code is client.models.ErrorCode.AGENT_PAUSED


def test_every_other_refusal_is_read_as_an_error(client):
    models, key = client.models, new_name("key")
    client.pay(key)
    answers = {
        "idempotency_conflict": client.pay(key, amount="2"),
        "invalid_request": client.pay(amount="nothing"),
        "agent_not_found": client.pay(agent_id="nobody", amount="1"),
    }

    for code, answer in answers.items():
        assert type(answer.parsed) is models.ErrorResponse
        assert type(answer.parsed.error) is models.ErrorDetail
        assert answer.parsed.error.code is models.ErrorCode(code)
    assert [fault.param for fault in answers["invalid_request"].parsed.error.fields] == ["amount"]
    assert answers["idempotency_conflict"].parsed.error.retry is None
    assert answers["agent_not_found"].parsed.error.retry is None


def test_a_wrong_key_is_read_as_an_error(client, servers):
    with client.package.AuthenticatedClient(base_url=servers.urls[0], token="alw_wrong") as stranger:
        answer = client.pay(using=stranger)

    assert answer.status_code == 401
    assert answer.parsed.error.code is client.models.ErrorCode.INVALID_API_KEY
