"""The requests that the pages show, sent as they stand; what comes back has the members that the pages show."""

import json
import shlex
from dataclasses import dataclass
from decimal import Decimal
from string import Template
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from policy.hours import parse_hours
from policy.payee_limits import PayeeException
from services.models import WebhookEvent
from tests.documents.pages import Block, blocks_of, pages
from tests.support.factories import decide, make_agent, make_agent_of_old, make_api_key, make_service
from tests.support.heartbeats import hearts_that_beat

URL = "http://testserver"
# What a command of a script ends with.
_ENDS = ";|>\n"
PAYMENT, EVALUATION, SERVICE = "/v1/payments/request", "/v1/payments/evaluate", "/v1/services"


@dataclass(frozen=True)
class Request:
    """A request that a page has curl make, of an installation that the page calls $URL."""

    block: Block
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.block}{self.path}"

    @property
    def path(self) -> str:
        (address,) = (word for word in self.words if word.startswith("$URL"))
        return address.removeprefix("$URL")

    @property
    def headers(self) -> dict[str, str]:
        pairs = [
            word.split(": ", 1) for option, word in zip(self.words, self.words[1:], strict=False) if option == "-H"
        ]
        return {name.lower().replace("-", "_"): value for name, value in pairs}

    @property
    def body(self) -> Any:
        return json.loads(self.words[self.words.index("-d") + 1])


def _requests() -> list[Request]:
    found = []
    for page in pages():
        for block in blocks_of(page):
            if block.language == "bash":
                commands = [line for line in _commands_of(block.text) if line[:1] == ["curl"]]
                found += [Request(block, tuple(words)) for words in commands if any("$URL" in word for word in words)]
    return found


def _commands_of(script: str) -> list[list[str]]:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=_ENDS)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(_ENDS):
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


REQUESTS = _requests()


def _send(api, request: Request, **changes: str) -> Any:
    headers = {
        name: Template(value).substitute(API_KEY=make_api_key(), URL=URL) for name, value in request.headers.items()
    }
    if "-d" in request.words:
        content_type = headers.pop("content_type")
        return api.post(request.path, {**request.body, **changes}, content_type=content_type, **headers)
    return api.get(Template(request.path).substitute(PAYMENT_ID=_payment_id(request.path)), **headers)


def _payment_id(path: str) -> str:
    return str(decide(make_agent(), make_service()).payment_id) if "$PAYMENT_ID" in path else ""


def _of(path: str) -> list[Request]:
    return [one for one in REQUESTS if one.path == path]


def _members_shown(page: str, member: str) -> list[set[str]]:
    shown = [json.loads(block.text) for block in blocks_of(page) if block.language == "json"]
    return [set(one) for one in shown if member in one]


def test_there_are_examples_of_each_kind_on_the_first_page_and_on_those_of_integrators():
    assert {one.block.page for one in _of(PAYMENT)} == {"README.md", "docs/integrate/agents.md"}
    assert {one.block.page for one in _of(SERVICE)} == {"docs/integrate/payees.md"}
    assert {one.block.page for one in _of(EVALUATION)} == {"docs/integrate/agents.md"}
    assert len(REQUESTS) > len(_of(PAYMENT)) + len(_of(SERVICE))


@pytest.mark.parametrize("request_", _of(PAYMENT), ids=str)
def test_a_payment_that_a_page_shows_is_approved_and_answered_as_shown(anonymous, request_):
    response = _send(anonymous, request_, agentId=make_agent().id, service=make_service().id)

    assert response.status_code == 201, response.content
    shown = _members_shown(request_.block.page, "policyRevision")
    assert [one for one in shown if "approvalExpiresAt" not in one] == [set(response.json())]


def test_a_payment_that_a_person_has_to_approve_is_answered_as_a_page_shows(api):
    agent, service = make_agent(approval_above=Decimal(5)), make_service()

    held = api.pay({"agentId": agent.id, "service": service.id, "amount": "6", "asset": "USDC", "reason": "A test"})

    shown = _members_shown("docs/integrate/agents.md", "approvalExpiresAt")
    assert (held.status_code, shown) == (202, [set(held.json())])


@pytest.mark.parametrize("request_", _of(EVALUATION), ids=str)
def test_an_evaluation_that_a_page_shows_tells_of_each_rule_what_is_shown(anonymous, request_):
    response = _send(anonymous, request_, agentId=make_agent().id, service=make_service().id)

    assert response.status_code == 200, response.content
    assert _members_shown(request_.block.page, "headroom") == [set(response.json()["rules"][0])]


@pytest.mark.parametrize("request_", _of(SERVICE), ids=str)
def test_a_registration_that_a_page_shows_is_accepted(anonymous, request_):
    response = _send(anonymous, request_)

    assert (response.status_code, response.json()["status"]) == (201, "pending_approval")


@pytest.mark.parametrize("request_", [one for one in REQUESTS if "-d" not in one.words], ids=str)
def test_an_address_that_a_page_reads_answers(anonymous, request_):
    make_agent_of_old("agent-research", asset=Asset.USDC)  # whom the pages name
    with hearts_that_beat():  # /readyz is among them
        assert _send(anonymous, request_).status_code == 200


def test_a_proof_has_the_members_that_a_page_shows(api, db):
    payment_id = decide(make_agent(), make_service()).payment_id

    assert _members_shown("docs/integrate/receipts.md", "proof") == [
        set(api.get(f"/v1/payments/{payment_id}/proof").json())
    ]


def test_a_budget_with_optional_limits_ends_with_the_members_that_a_page_shows(api, db):
    (shown,) = [json.loads(one.text) for one in blocks_of("docs/integrate/agents.md") if "hourlyLimit" in one.text]
    agent = make_agent(
        hourly_limit=Decimal(10), payments_per_day=100, allowed_hours=parse_hours(shown["allowedHours"]),
        payee_limits={"weather-api": PayeeException({"day": Decimal(20), "week": None})},
    )  # fmt: skip

    budget = api.get(f"/v1/agents/{agent.id}/budget").json()

    nothing_yet = {"spentThisHour": "0.00", "paymentsToday": 0}
    assert list(budget)[-len(shown) :] == list(shown)
    assert {name: budget[name] for name in shown} == {**shown, **nothing_yet}


def test_a_webhook_has_the_members_that_a_page_shows_in_their_order(db):
    service = make_service(webhook_url="https://hooks.example.com/")
    decide(make_agent(), service)
    (shown,) = [one for one in blocks_of("docs/integrate/payees.md") if '"payment.settled"' in one.text]

    sent, told = json.loads(WebhookEvent.objects.get(service=service).payload), json.loads(shown.text)
    assert (list(told), list(told["data"])) == (list(sent), list(sent["data"]))


def test_a_refusal_has_the_members_that_the_page_of_errors_shows(api, payment_over_the_daily_limit):
    response = api.pay(payment_over_the_daily_limit)
    shown = [json.loads(block.text) for block in blocks_of("docs/integrate/errors.md") if block.language == "json"]

    assert response.status_code == 422
    assert [set(one["error"]) for one in shown] == [set(response.json()["error"])]


@pytest.fixture
def payment_over_the_daily_limit(db):
    agent, service = make_agent(daily_limit="5"), make_service()
    return {"agentId": agent.id, "service": service.id, "amount": "6.00", "asset": "USDC", "reason": "R"}
