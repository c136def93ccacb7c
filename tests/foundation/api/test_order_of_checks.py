"""The order of checks: of two things that are wrong with a request, the earlier one in the contract's list is told.

404/405 of the route → 401 → 429 → 413/415/400 of the body's syntax → 400 of the query's names → 403 scope → idempotency
header → body → 403 binding → agent exists → replay or 409 → policy.
"""

import json
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
from django.test import Client

from policy.operations import pause_agent
from tests.support.answers import error_of
from tests.support.factories import make_agent, make_api_key, new_name

PATH = "/v1/payments/request"


@dataclass
class Draft:
    """A payment request in the making; a fault spoils one thing about it."""

    agent: Any
    body: dict[str, Any]
    method: str = "POST"
    path: str = PATH
    content_type: str = "application/json"
    raw: bytes | None = None
    key: str | None = None
    scopes: list[str] = field(default_factory=lambda: ["payments"])
    bound_to: Any = None
    idempotency_key: str | None = None

    def send(self):
        api_key = self.key or make_api_key(agent=self.bound_to, scopes=self.scopes)
        headers = {"x-api-key": api_key}
        if self.idempotency_key is not None:
            headers["idempotency-key"] = self.idempotency_key
        client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        data = self.raw if self.raw is not None else json.dumps(self.body).encode()
        return client.generic(self.method, self.path, data, content_type=self.content_type, headers=headers)


def unknown_path(draft):
    draft.path = "/v1/payments/request/now"


def wrong_method(draft):
    draft.method = "PUT"


def no_valid_key(draft):
    draft.key = "alw_nonsense"


def too_large(draft):
    draft.raw = b"x" * 65_537


def wrong_type(draft):
    draft.content_type = "text/plain"


def not_json(draft):
    if draft.raw is None:
        draft.raw = b"{"


def unknown_parameter(draft):
    draft.path += "?dryRun=true"


def no_scope(draft):
    draft.scopes = ["budgets", "services", "logs"]


def no_idempotency_key(draft):
    draft.idempotency_key = None


def malformed_idempotency_key(draft):
    draft.idempotency_key = "x" * 256


def bad_amount(draft):
    draft.body["amount"] = "1e3"


def bound_elsewhere(draft):
    draft.bound_to = make_agent()


def unknown_agent(draft):
    draft.body["agentId"] = "nobody"


def conflict(draft):
    draft.body["reason"] = "Another"


def paused(draft):
    pause_agent(draft.agent.id, by="ann")


FAULTS = [
    (unknown_path, 404, "not_found"),
    (wrong_method, 405, "method_not_allowed"),
    (no_valid_key, 401, "invalid_api_key"),
    (too_large, 413, "payload_too_large"),
    (wrong_type, 415, "unsupported_media_type"),
    (not_json, 400, "invalid_request"),
    (unknown_parameter, 400, "invalid_request"),
    (no_scope, 403, "insufficient_scope"),
    (no_idempotency_key, 400, "idempotency_key_required"),
    (bad_amount, 400, "invalid_request"),
    (bound_elsewhere, 403, "insufficient_scope"),
    (unknown_agent, 404, "agent_not_found"),
    (conflict, 409, "idempotency_conflict"),
    (paused, 403, "agent_paused"),
]


@pytest.fixture
def draft(agent, payment):
    """A request whose idempotency key was used before, so that a changed body conflicts."""
    made = Draft(agent=agent, body=dict(payment), idempotency_key=new_name("key"))
    assert made.send().status_code == 201
    return made


@pytest.mark.parametrize(
    ("faults", "status", "code"),
    [
        pytest.param((first[0], second[0]), first[1], first[2], id=f"{first[0].__name__}-{second[0].__name__}")
        for first, second in combinations(FAULTS, 2)
    ],
)
def test_of_two_faults_the_earlier_check_answers(draft, faults, status, code):
    # In reverse, as the later fault must not undo the earlier one.
    for fault in reversed(faults):
        fault(draft)
    if paused in faults and conflict not in faults:
        draft.idempotency_key = draft.idempotency_key and new_name("key")

    error_of(draft.send(), status, code)


@pytest.mark.parametrize(
    ("fault", "status", "code"), [pytest.param(*row, id=row[0].__name__) for row in FAULTS if row[0] is not paused]
)
def test_a_fault_alone_is_told(draft, fault, status, code):
    fault(draft)

    error_of(draft.send(), status, code)


@pytest.mark.parametrize("fault", [bad_amount, bound_elsewhere, unknown_agent, conflict])
def test_a_malformed_idempotency_key_is_told_before_the_body(draft, fault):
    malformed_idempotency_key(draft)
    fault(draft)

    assert error_of(draft.send(), 400, "invalid_request")["fields"][0]["param"] == "Idempotency-Key"


@pytest.mark.parametrize("fault", [too_large, wrong_type, not_json, no_scope, no_idempotency_key, bad_amount])
def test_the_rate_limit_is_checked_before_the_body(draft, settings, fault):
    settings.RATE_LIMIT_PER_MINUTE = 0
    fault(draft)

    error_of(draft.send(), 429, "rate_limited")


@pytest.mark.parametrize(("fault", "status", "code"), FAULTS[:3])
def test_the_rate_limit_is_checked_after_the_route_and_the_key(draft, settings, fault, status, code):
    settings.RATE_LIMIT_PER_MINUTE = 0
    fault(draft)

    error_of(draft.send(), status, code)


def test_an_earlier_decision_is_told_before_policy_is_asked(draft):
    paused(draft)

    response = draft.send()

    assert (response.status_code, response["Idempotent-Replayed"]) == (201, "true")
