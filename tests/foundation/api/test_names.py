"""Names that nobody reads: a parameter of the query is refused, a member of the body is ignored and named."""

import pytest

from foundation.api.names import name_ignored
from foundation.kernel.times import utc_now
from policy.models import ApiKey
from tests.support.answers import error_of, faulty_params
from tests.support.factories import new_address, new_name

LISTS = ["/v1/payments", "/v1/services", "/v1/logs"]
READS = [
    *LISTS, "/v1/payments/pay_01h00000000000000000000000", "/v1/payments/pay_01h00000000000000000000000/proof",
    "/v1/agents/nobody/budget", "/v1/services/nobody", "/v1/logs/log_01h00000000000000000000000", "/v1/me",
]  # fmt: skip
FILTERS = {
    "/v1/payments": ["agentId", "service", "status", "amount", "since", "idempotencyKey", "limit", "cursor"],
    "/v1/services": ["agentId", "limit", "cursor"],
    "/v1/logs": ["agentId", "result", "idempotencyKey", "limit", "cursor"],
}


@pytest.fixture
def bodies(payment):
    """A body for each address that takes one, by the address: all but that of x402 would be answered with success."""
    registration = {"id": new_name("service"), "name": "A", "recipient": f"base:{new_address()}", "asset": "USDC"}
    return {
        "/v1/payments/request": payment,
        "/v1/payments/evaluate": payment,
        "/v1/payments/x402": payment,
        "/v1/services": registration,
    }


def post(api, path, body):
    return api.post(path, body, **{"idempotency-key": new_name("key")})


# --- Parameters of the query
@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("path", READS)
def test_a_parameter_that_is_not_known_is_refused_wherever_something_is_read(api, path, slash):
    assert faulty_params(api.get(f"{path}{slash}?utm=1")) == ["utm"]
    assert api.send("HEAD", f"{path}{slash}?utm=1").status_code == 400


@pytest.mark.parametrize("path", ["/v1/payments/request", "/v1/payments/evaluate", "/v1/payments/x402", "/v1/services"])
def test_nothing_is_paid_or_registered_with_a_parameter_that_is_not_known(api, bodies, path, no_trace):
    assert faulty_params(post(api, f"{path}?dryRun=true", bodies[path])) == ["dryRun"]


@pytest.mark.parametrize(
    ("path", "name", "meant"),
    [
        ("/v1/payments", "idempotencykey", "idempotencyKey"),
        ("/v1/payments", "idempotency_key", "idempotencyKey"),
        ("/v1/payments", "Idempotency-Key", "idempotencyKey"),
        ("/v1/payments", "stauts", "status"),
        ("/v1/payments", "agent", "agentId"),
        ("/v1/logs", "AGENTID", "agentId"),
        ("/v1/logs", "results", "result"),
        ("/v1/services", "curser", "cursor"),
    ],
)
def test_the_nearest_name_is_told(api, path, name, meant):
    (fault,) = error_of(api.get(path, {name: "x"}), 400, "invalid_request")["fields"]

    assert fault == {"param": name, "message": f"There is no such parameter. Did you mean {meant}?"}


def test_where_no_name_is_near_all_are_told_or_that_there_are_none(api):
    def said(path):
        (fault,) = error_of(api.get(path), 400, "invalid_request")["fields"]
        return fault["message"]

    assert said("/v1/services?utm=1") == "There is no such parameter. There are agentId, limit, cursor."
    assert said("/v1/me?utm=1") == "There is no such parameter: this address takes none."


@pytest.mark.parametrize("path", LISTS)
def test_every_unknown_name_is_told_and_no_value(api, path):
    response = api.get(f"{path}?one=swordfish&two&limit=1&=swordfish&%ff=%00&{'x' * 5000}=1")

    assert faulty_params(response) == ["one", "two", "", "\ufffd", "x" * 48]
    assert b"swordfish" not in response.content


def test_of_very_many_unknown_names_some_are_told(api):
    response = api.get("/v1/logs?" + "&".join(f"{number}{'x' * 100}=1" for number in range(900)))

    assert len(faulty_params(response)) == 16
    assert len(response.content) < 4096


@pytest.mark.parametrize("path", LISTS)
def test_a_parameter_with_two_values_is_refused_and_with_one_twice_is_not(api, path):
    (fault,) = error_of(api.get(f"{path}?limit=5&limit=6"), 400, "invalid_request")["fields"]

    assert fault == {"param": "limit", "message": "Was sent more than once, with different values."}
    assert api.get(f"{path}?limit=5&limit=5").status_code == 200


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in FILTERS.items() for name in names])
def test_a_filter_without_a_value_is_refused(api, client_of, agent, path, name):
    for client in (api, client_of(agent=agent, scopes=["payments", "services", "logs"])):
        for query in ({name: ""}, {name: "", "agentId": ""}):
            assert set(faulty_params(client.get(path, query))) == set(query)


@pytest.mark.parametrize("name", ["nobody", "x" * 300, "\u00fc\U0001f600", "%", "'--", "agent ", " "])
@pytest.mark.parametrize("path", LISTS)
def test_an_agent_that_does_not_exist_is_not_told_to_have_nothing(api, client_of, agent, path, name):
    key = {} if path == "/v1/services" else {"idempotencyKey": "order-1"}

    error_of(api.get(path, {"agentId": name, **key}), 404, "agent_not_found")
    error_of(
        client_of(agent=agent, scopes=["payments", "logs"]).get(path, {"agentId": name}), 403, "insufficient_scope"
    )


def test_a_recovery_with_a_mistyped_or_empty_name_never_hears_that_nothing_was_paid(api, agent, payment):
    api.pay(payment, "order-1")
    (paid,) = api.get("/v1/payments", {"agentId": agent.id, "idempotencyKey": "order-1"}).json()["data"]

    for query in (
        {"agentId": "", "idempotencyKey": "order-1"},
        {"agentId": f"{agent.id}x", "idempotencyKey": "order-1"},
        {"agentId": agent.id, "idempotencykey": "order-1"},
        {"agentId": agent.id, "idempotencykey": "order-2"},
        {"agentid": agent.id, "idempotencyKey": "order-1"},
        {"agentId": agent.id, "idempotencyKey": ""},
    ):
        response = api.get("/v1/payments", query)
        assert response.status_code in (400, 404), query
        assert paid["id"] not in response.content.decode()


def test_names_are_checked_after_the_key_the_rate_and_the_body_and_before_the_scope(
    api, anonymous, client_of, payment, settings
):
    path = "/v1/payments/request?dryRun=true"
    keyless = client_of(scopes=["logs"])

    error_of(anonymous.get("/v1/logs?utm=1"), 401, "invalid_api_key")
    error_of(api.post(path, b"x" * 65_537), 413, "payload_too_large")
    error_of(api.post(path, payment, "text/plain"), 415, "unsupported_media_type")
    assert faulty_params(api.post(path, b"{")) == [""]
    assert faulty_params(keyless.post(path, payment)) == ["dryRun"]
    assert faulty_params(api.post(path, {})) == ["dryRun"]
    settings.RATE_LIMIT_PER_MINUTE = 0
    error_of(api.get("/v1/logs?utm=1"), 429, "rate_limited")


@pytest.mark.parametrize(
    "path", ["/v1/openapi.json", "/v1/docs", "/v1/docs/errors", "/llms.txt", "/.well-known/allowance-keys.json"]
)
def test_public_documents_may_be_asked_for_with_any_parameter(anonymous, path):
    assert anonymous.get(f"{path}?utm=1").content == anonymous.get(path).content


def test_options_asks_for_nothing(api):
    assert api.send("OPTIONS", "/v1/logs?utm=1").status_code == 204


# --- Members of the body
@pytest.mark.parametrize("path", ["/v1/payments/request", "/v1/payments/evaluate", "/v1/payments/x402", "/v1/services"])
def test_a_member_that_is_not_read_is_named(api, bodies, path):
    plain = post(api, path, bodies[path])
    answer = post(api, path, {**bodies[path], "metdata": {"order": 7}, "dryRun": True})

    assert "metdata, dryRun" in answer["Ignored-Members"]
    assert answer.status_code == plain.status_code or path == "/v1/services"
    assert "Ignored-Members" not in plain or path == "/v1/payments/x402"


def test_a_replay_names_them_again_and_a_refusal_does_too(api, payment):
    key = new_name("key")
    asked = {**payment, "metdata": {}}

    first, again = (api.pay(asked, key) for _ in range(2))
    refused = api.pay({**asked, "amount": "11"})
    faulty = api.pay({**{name: value for name, value in asked.items() if name != "reason"}, "reasn": "x"})

    assert again["Idempotent-Replayed"] == "true"
    assert first["Ignored-Members"] == again["Ignored-Members"] == "metdata"
    assert (refused.status_code, refused["Ignored-Members"]) == (422, "metdata")
    assert (faulty_params(faulty), faulty["Ignored-Members"]) == (["reason"], "metdata, reasn")


def test_what_is_within_a_member_is_nobody_s_business(api, payment):
    assert "Ignored-Members" not in api.pay({**payment, "metadata": {"metdata": 1}})


def test_who_is_not_known_any_more_is_told_no_names(client_of, payment):
    client = client_of(scopes=["payments"])
    assert client.pay({**payment, "x": 1})["Ignored-Members"] == "x"

    ApiKey.objects.update(revoked_at=utc_now())  # this process remembers the caller, and reads the body

    refused = client.pay({**payment, "x": 1})
    error_of(refused, 401, "invalid_api_key")
    assert "Ignored-Members" not in refused


HOSTILE = {
    "ends of lines": ("a\r\nSet-Cookie: b=c", "a??Set-Cookie??b?c"),
    "separators": ('a, "b"; c', "a???b???c"),
    "letters of anywhere": ("\u00fc\U0001f600\u202e", "???"),
    "nothing": ("", "?"),
    "much": ("x" * 5000, "x" * 48),
    "a count": ("+3", "?3"),
}


@pytest.mark.parametrize(("name", "written"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_name_makes_no_other_header(api, payment, name, written):
    assert api.pay({**payment, name: 1})["Ignored-Members"] == written


def test_of_very_many_members_a_few_are_named_and_the_others_counted(api, payment):
    answer = api.pay({**payment, **{f"member{number}": 1 for number in range(2000)}})

    assert answer.status_code == 201
    assert answer["Ignored-Members"] == ", ".join([*(f"member{number}" for number in range(8)), "+1992"])
    assert len(name_ignored(dict.fromkeys(f"{number}{'x' * 99}" for number in range(9999)), ())) < 512
