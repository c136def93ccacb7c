"""`GET /v1/openapi.json` and `GET /v1/docs`: what they say is what the server does."""

import re
from urllib.parse import urlsplit

import pytest
import requests
from openapi_spec_validator import OpenAPIV31SpecValidator

from foundation.api.fields import has_control_characters
from foundation.api.openapi_parts import AMOUNT, CONTROLS, SPACE, UNSEEN
from foundation.kernel import money
from foundation.kernel.blanks import is_blank
from ledger import receipts
from policy.holding_rules import PERSON_RULE
from policy.more_limits import PARTS
from policy.rules import RULE_NAMES, RULES, SIGNER_RULE
from services import openapi as services_openapi
from services import serializers as services_serializers
from tests.support.fake_chain import PATIENCE_S
from tests.support.openapi_document import OPERATIONS, operations

PLAIN = {"/healthz", "/readyz", "/.well-known/allowance-keys.json"}

# The specification's tables, in its order.
FIELDS = {
    "PaymentRequest": ["agentId", "service", "amount", "asset", "reason", "metadata"],
    "Payment": ["id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt"],
    "HeldPayment": [
        "id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt", "rule",
        "message", "approvalExpiresAt",
    ],
    "LogEntry": ["id", "agentId", "service", "amount", "asset", "result", "rule", "createdAt"],
    "Budget": [
        "agentId", "status", "asset", "balance", "spentToday", "spentThisWeek", "dailyLimit", "weeklyLimit",
        "maxPerPayment", "policyRevision", "heldForApproval", *(part.name for part in PARTS), "spentThisHour",
        "spentThisMonth", "spentInTotal", "paymentsThisHour", "paymentsToday", "levels",
    ],
    "Registration": ["id", "name", "recipient", "asset", "webhookUrl"],
    "Service": ["id", "name", "recipient", "asset", "status", "createdAt"],
    "LogPage": ["data", "nextCursor"],
    "PaymentState": [
        "id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt", "agentId",
        "recipient", "reason", "metadata", "finalTx", "transactions", "logId", "settledAt", "failedAt", "failureReason",
        "escrowId", "approvalExpiresAt", "declinedAt", "declineReason",
    ],
    "PaymentPage": ["data", "nextCursor"],
    "Proof": ["paymentId", "service", "status", "proof"],
    "ServicePage": ["data", "nextCursor"],
    "Key": ["keyId", "name", "scopes", "agentId", "ownPayeesOnly", "createdAt", "expiresAt",
            "requestsPerMinute", *(part.name for part in PARTS)],
}  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/openapi.json/"])
def test_the_document_is_openapi_3_1_and_needs_no_key(anonymous, path):
    response = anonymous.get(path)

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json()["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(response.json()).validate()


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*;q=0"])
@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/docs"])
def test_what_a_client_accepts_makes_no_difference(anonymous, path, accept):
    assert anonymous.get(path, accept=accept).status_code == 200


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/docs"])
def test_another_method_is_refused_in_the_envelope(anonymous, path):
    response = anonymous.post(path, {})

    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")


def test_the_document_is_generated_once(anonymous, monkeypatch):
    first = anonymous.get("/v1/openapi.json").content
    monkeypatch.setattr("foundation.api.openapi_views.SchemaGenerator", None)

    assert anonymous.get("/v1/openapi.json").content == first


@pytest.mark.parametrize("path", ["/v1/docs", "/v1/docs/"])
def test_the_page_needs_no_key_and_loads_nothing_from_elsewhere(anonymous, path):
    response = anonymous.get(path)
    page = response.content.decode()

    assert response.status_code == 200
    assert "text/html" in response["Content-Type"]
    assert "/v1/openapi.json" in page
    assert '"validatorUrl": null' in page
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    assert [address for address in addresses if urlsplit(address).netloc] == []


def test_what_the_page_loads_is_served_with_debug_off(committed, servers):
    page = requests.get(f"{servers.urls[0]}/v1/docs", timeout=PATIENCE_S).text

    for address in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert requests.get(servers.urls[0] + address, timeout=PATIENCE_S).status_code == 200


def test_every_operation_is_there_under_a_clean_path(document):
    found = {
        (path, method): operation["operationId"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path not in PLAIN
    }

    assert found == OPERATIONS
    assert document["paths"].keys() - {path for path, _ in OPERATIONS} == PLAIN


def test_the_operations_of_a_path_have_the_same_order_in_every_process(document):
    assert [list(methods) for methods in document["paths"].values()] == [
        sorted(methods) for methods in document["paths"].values()
    ]


def test_every_operation_has_a_summary_a_tag_and_two_ways_to_send_a_key(document):
    for operation in operations(document):
        assert operation["summary"]
        assert len(operation["tags"]) == 1
        assert [*operation["security"][0], *operation["security"][1]] == ["bearerKey", "headerKey"]


@pytest.mark.parametrize(("component", "fields"), FIELDS.items())
def test_properties_are_those_of_the_specification_in_its_order(document, component, fields):
    properties = list(document["components"]["schemas"][component]["properties"])

    assert properties[: len(fields)] == fields
    assert component == "LogEntry" or properties == fields


def test_a_log_entry_has_the_members_of_a_receipt(document):
    assert tuple(document["components"]["schemas"]["LogEntry"]["properties"]) == receipts.MEMBERS


def test_what_may_be_left_out_of_a_request(document):
    schemas = document["components"]["schemas"]

    assert FIELDS["PaymentRequest"] == [*sorted_as(FIELDS["PaymentRequest"], schemas["PaymentRequest"]), "metadata"]
    assert FIELDS["Registration"] == [*sorted_as(FIELDS["Registration"], schemas["Registration"]), "webhookUrl"]


def test_patterns_are_those_of_the_code(document):
    assert AMOUNT["pattern"] == f"^{money._AMOUNT.pattern}$"
    assert services_openapi._ID["pattern"] == f"^{services_serializers._SERVICE_ID.pattern}$"
    assert document["components"]["schemas"]["Rule"]["enum"] == [*RULE_NAMES]
    assert (*(rule.name for rule in RULES), PERSON_RULE.name, SIGNER_RULE.name) == RULE_NAMES


def test_space_and_controls_are_those_of_the_code():
    letters = [chr(code) for code in range(0x110000)]

    assert {letter for letter in letters if not letter.strip()} == set(re.findall(f"[{SPACE}]", "".join(letters)))
    plane = [letter for letter in letters if letter < "\U00010000" and not "\ud800" <= letter < "\ue000"]
    assert {letter for letter in plane if is_blank(letter)} == set(re.findall(f"[{UNSEEN}]", "".join(plane)))
    assert {letter for letter in letters if has_control_characters(letter)} == set(
        re.findall(f"[{CONTROLS}]", "".join(letters))
    )


def test_nothing_stands_beside_a_reference_and_nothing_is_combined(document):
    # Generators of clients drop such models, and do not say so.
    assert [path for path, node in parts(document) if ("$ref" in node and len(node) > 1) or "allOf" in node] == []


def test_every_enumeration_and_every_object_with_members_has_a_name(document):
    # Generators make a type of its own of each that has none: name it in the `openapi.py` of its app.
    unnamed = [
        path
        for path, node in parts(document)
        if ("enum" in node or "properties" in node) and path[:-1] != ("components", "schemas")
    ]

    assert unnamed == []


def test_what_needs_no_key_says_so(document):
    public = [
        path
        for path, methods in document["paths"].items()
        if methods["get" if "get" in methods else "post"]["security"] == []
    ]

    assert set(public) == PLAIN


def test_every_tag_is_described_and_used(document):
    everything = [*document["paths"].values(), *document["webhooks"].values()]
    used = {tag for methods in everything for operation in methods.values() for tag in operation["tags"]}

    assert [tag["name"] for tag in document["tags"] if not tag["description"]] == []
    assert {tag["name"] for tag in document["tags"]} == used


def test_the_document_names_its_licence_and_is_about_the_server_that_sends_it(document):
    assert document["info"]["license"]["identifier"] == "Apache-2.0"
    assert [server["url"] for server in document["servers"]] == ["/"]


def parts(node, path=()):
    """Yield every object of the document with its path, but for the data in it."""
    if isinstance(node, dict):
        yield path, node
    members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, inner in members:
        if name not in {"example", "examples", "value"}:
            yield from parts(inner, (*path, name))


def sorted_as(names, schema):
    return sorted(schema["required"], key=names.index)
