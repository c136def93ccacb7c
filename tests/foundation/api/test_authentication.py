"""Who is asking: the forms of a key, and the one 401 for all that is wrong with one."""

import base64

import pytest

from foundation.kernel.times import utc_now
from policy.api_keys import digest, new_key
from policy.key_operations import create_api_key, revoke_api_key
from policy.models import ApiKey
from tests.support.answers import FIRST_MEMBERS, error_of
from tests.support.factories import make_api_key

ENDPOINTS = [
    ("POST", "/v1/payments/request"),
    ("GET", "/v1/payments/pay_01h00000000000000000000000"),
    ("GET", "/v1/agents/somebody/budget"),
    ("POST", "/v1/services"),
    ("GET", "/v1/logs"),
]


@pytest.fixture
def key(db):
    return make_api_key()


def assert_unauthorised(response):
    error = error_of(response, 401, "invalid_api_key")
    assert list(error) == FIRST_MEMBERS
    assert response["WWW-Authenticate"] == 'Bearer realm="allowance"'


@pytest.mark.parametrize(
    "scheme", ["Bearer", "bearer", "BEARER", "Api-Key", "api-key", "API-KEY", "Bearer  ", " Bearer"]
)
def test_the_authorization_header_carries_a_key_in_any_case_of_its_scheme(anonymous, key, scheme):
    assert anonymous.get("/v1/logs", authorization=f"{scheme} {key}").status_code == 200


def test_the_x_api_key_header_carries_a_key(anonymous, key):
    assert anonymous.get("/v1/logs", x_api_key=key).status_code == 200


def test_the_same_key_in_both_headers_is_one_key(anonymous, key):
    assert anonymous.get("/v1/logs", authorization=f"Bearer {key}", x_api_key=key).status_code == 200


def test_two_different_keys_are_refused_though_both_are_valid(anonymous, key):
    other = make_api_key()

    assert_unauthorised(anonymous.get("/v1/logs", authorization=f"Bearer {key}", x_api_key=other))


@pytest.mark.parametrize("parameter", ["api_key", "apiKey", "key", "access_token", "X-API-Key", "authorization"])
def test_a_key_in_the_query_string_is_no_key(anonymous, key, parameter):
    assert_unauthorised(anonymous.get("/v1/logs", {parameter: key}))


def test_a_key_in_the_body_is_no_key(anonymous, key):
    assert_unauthorised(anonymous.post("/v1/services", {"apiKey": key, "access_token": key}))


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_every_endpoint_wants_a_key(anonymous, method, path):
    assert_unauthorised(anonymous.send(method, path, b"{}" if method == "POST" else b"", "application/json"))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "{key}"},
        {"authorization": "Basic {key}"},
        {"authorization": "Basic {basic}"},
        {"authorization": "Token {key}"},
        {"authorization": "Bearer{key}"},
        {"authorization": "Bearer {key} {key}"},
        {"authorization": "Bearer {key},Bearer {key}"},
        {"authorization": "Bearer {key}x"},
        {"authorization": "Bearer {short}"},
        {"authorization": 'Bearer "{key}"'},
        {"authorization": "Bearer {unknown}"},
        {"authorization": "Bearer {revoked}"},
        {"authorization": "Bearer {expired}"},
        {"authorization": "Bearer \u00e9\u00fc"},
        {"authorization": "Bearer " + "x" * 5000},
        {"x_api_key": ""},
        {"x_api_key": "Bearer {key}"},
        {"x_api_key": "{unknown}"},
        {"x_api_key": "{revoked}"},
        {"x_api_key": "{expired}"},
        {"x_api_key": "{key},{key}"},
        {"authorization": "Bearer {key}", "x_api_key": ""},
        {"authorization": "Bearer {key}", "x_api_key": "nonsense"},
        {"authorization": "nonsense", "x_api_key": "{key}"},
    ],
)
def test_whatever_is_wrong_with_a_key_the_answer_is_the_same(anonymous, key, headers):
    record, expired = create_api_key(expires_in_s=1, by="test")
    ApiKey.objects.filter(pk=record.pk).update(expires_at=utc_now())
    revoked = make_api_key()
    revoke_api_key(revoked, by="test")
    values = {
        "key": key,
        "short": key[:-1],
        "unknown": new_key(),
        "revoked": revoked,
        "expired": expired,
        "basic": base64.b64encode(f"{key}:".encode()).decode(),
    }

    response = anonymous.get("/v1/logs", **{name: value.format(**values) for name, value in headers.items()})

    assert_unauthorised(response)
    assert response.content == anonymous.get("/v1/logs").content


def test_a_key_is_checked_before_the_body_is_read(anonymous):
    assert_unauthorised(anonymous.post("/v1/services", b"{not json"))
    assert_unauthorised(anonymous.post("/v1/services", b"x" * 100_000))
    assert_unauthorised(anonymous.post("/v1/services", b"x", content_type="text/plain"))


def test_a_revocation_holds_for_the_next_request(anonymous, key):
    assert anonymous.get("/v1/logs", x_api_key=key).status_code == 200

    revoke_api_key(key, by="test")

    assert_unauthorised(anonymous.get("/v1/logs", x_api_key=key))


def test_a_request_is_recorded_as_the_last_use_of_its_key(anonymous, key):
    before = utc_now()

    anonymous.get("/v1/logs", x_api_key=key)

    assert ApiKey.objects.filter(digest=digest(key), last_used_at__gte=before).exists()


def test_the_public_keys_are_read_without_a_key(anonymous):
    response = anonymous.get("/.well-known/allowance-keys.json")

    assert response.status_code == 200
    assert {jwk["crv"] for jwk in response.json()["keys"]} >= {"Ed25519", "secp256k1"}
    assert not any("d" in jwk for jwk in response.json()["keys"])
