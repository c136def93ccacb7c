"""What schemathesis is told of us (`schemathesis.toml`): rules that JSON Schema cannot say, and checks of our own."""

import os
from pathlib import Path
from typing import Any
from zlib import crc32

import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response
from schemathesis.core.failures import Failure
from schemathesis.openapi.checks import RejectedPositiveData

_OF_A_PAYMENT = {
    "",  # an integer beyond 2^53 - 1, U+0000 or a lone surrogate anywhere in the body
    "amount",  # zero, or more decimals than the asset has
    "metadata",  # too large as a whole, or too deep
}
# By operation: which members of a valid request may be refused with 400 all the same, and why.
_MORE_THAN_A_SCHEMA = {
    "requestPayment": _OF_A_PAYMENT,
    "evaluatePayment": _OF_A_PAYMENT,
    "payDemand": {"", "metadata", "paymentRequirements"},  # a chain, an asset or a name that is not served here
    "registerService": {
        "",  # as above
        "id",  # like a wallet's address
        "recipient",  # an unknown chain, a wrong checksum
        "webhookUrl",  # a host that is not public
    },
    "listLogs": {
        "cursor",  # not one of ours, or made for other filters
        "idempotencyKey",  # of no agent, or two double quotes
    },
    "listPayments": {
        "cursor",  # as above
        "since",  # a day that no calendar has
        "idempotencyKey",  # of no agent, or two double quotes
        "amount",  # of no agent, or to no service
    },
    "listServices": {"cursor"},
}

_APPROVED: list[str] = []  # the payments of this run
# Agent, service, amount: approved, and refused with 422.
_PLAIN = (
    ("fuzz-agent", "fuzz-payee", "0.01"),
    ("fuzz-agent/on-solana", "fuzz-payee-on-solana", "0.02"),
    ("fuzz-agent", "fuzz-payee", "2.50"),
    ("fuzz-agent", "fuzz-payee", "10.01"),
)


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
    """Lead from a registration to a payment: a part of a body is nothing that OpenAPI's links can say."""
    for status in ("200", "201"):
        links = raw_schema["paths"]["/v1/services"]["post"]["responses"][status].setdefault("links", {})
        links["pay"] = {"operationId": "requestPayment", "requestBody": {"service": "$response.body#/id"}}


@schemathesis.hook
def map_case(context: HookContext, case: Case) -> Case:
    """Let two of three payments be plain ones in the asset of their agent, and read some that were approved.

    Of others, few would be approved, and hardly one would be found.
    """
    body, chance = case.body, crc32(repr((case.body, case.path_parameters)).encode())
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if is_valid and _operation_id(case) == "getPayment" and _APPROVED:
        case.path_parameters["id"] = _APPROVED[chance % len(_APPROVED)]
    if is_valid and _operation_id(case) == "requestPayment" and isinstance(body, dict) and chance % 3:
        case.headers["Idempotency-Key"] = f"fuzz-{chance if chance % 4 else 0}"  # some have been used before
        if chance % 2:
            body["agentId"], body["service"], body["amount"] = _PLAIN[chance // 6 % len(_PLAIN)]
        asset = "SOL" if "solana" in str(body["agentId"]) else "USDC"
        if chance % 5 == 1:
            body["amount"] = "10.01"  # more than any agent may pay at once
        case.body = {**{name: body[name] for name in ("agentId", "service", "amount", "reason")}, "asset": asset}
    return case


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Accept the refusal of a valid request only for what a schema cannot say."""
    if not isinstance(failure, RejectedPositiveData):
        return True
    error = response.json()["error"]
    if failure.status_code == 422:  # a policy's refusal
        return "rule" not in error
    if error.get("rule") == "asset_matches":
        return False
    allowed = _MORE_THAN_A_SCHEMA.get(_operation_id(case), set())
    return not (failure.status_code == 400 and {field["param"] for field in error["fields"]} <= allowed)


@schemathesis.hook
def after_call(context: HookContext, case: Case, response: Response) -> None:
    """Note where the run has been."""
    been = [str(response.status_code)]
    if response.status_code == 201 and _operation_id(case) == "requestPayment":
        _APPROVED.append(response.json()["id"])
    if "idempotent-replayed" in response.headers:
        been.append("replay")
    if response.status_code == 200 and _operation_id(case) == "getPayment":
        been.append(response.json()["status"])
    with Path(os.environ["FUZZ_BEEN"]).open("a") as file:
        file.writelines(f"{_operation_id(case)} {what}\n" for what in been)


@schemathesis.check
def answer_is_ours(ctx: CheckContext, response: Response, case: Case) -> None:
    """Insist on the headers of every answer, and on a code that the document shows for this status."""
    assert response.headers["x-request-id"], "no X-Request-Id"
    if response.status_code >= 400 and "error" in response.json():
        assert response.headers["cache-control"] == ["no-store"], "may be cached"
        documented = case.operation.definition.raw["responses"].get(str(response.status_code))
        if documented is not None:
            assert response.json()["error"]["code"] in _codes(documented), "the code is not documented"
        # `status_code_conformance` looks away where the method or the type of the body was wrong.
        assert documented or response.request.method != case.operation.method.upper(), "the status is not documented"


def _codes(documented: Any) -> set[str]:
    examples = documented["content"]["application/json"]["examples"].values()
    return {example["value"]["error"]["code"] for example in examples}


def _operation_id(case: Case) -> str:
    return str(case.operation.definition.raw["operationId"])
