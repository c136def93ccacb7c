"""The envelope: what every answer has, whoever made it, views or what stands before them."""

import re

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.urls import path
from psycopg.errors import DiskFull, QueryCanceled

from allowance.urls import handler400, handler403, handler404, handler500  # noqa: F401 - a urlconf has them
from foundation.api.errors import STATUS
from foundation.api.views import ApiViewSet
from foundation.kernel import errors
from tests.support.answers import FIRST_MEMBERS, ULID, error_of
from tests.support.heartbeats import hearts_that_beat

SECRET = "the password is swordfish"


class BrokenViewSet(ApiViewSet):
    required_scope = "logs"

    def list(self, _request):
        raise RuntimeError(SECRET)


def broken(_request):
    raise RuntimeError(SECRET)


class CutOffViewSet(ApiViewSet):
    required_scope = "logs"

    def list(self, _request):
        raise OperationalError(SECRET)


def forbidden(_request):
    raise PermissionDenied(SECRET)


urlpatterns = [
    path("broken", broken),
    path("forbidden", forbidden),
    path("v1/cut-off", CutOffViewSet.as_view({"get": "list"})),
    path("v1/broken", BrokenViewSet.as_view({"get": "list"})),
]

PAGES = [
    ("POST", "/v1/payments/request", 400),
    ("GET", "/v1/payments/pay_01h00000000000000000000000", 404),
    ("GET", "/v1/agents/nobody/budget", 404),
    ("GET and POST", "/v1/services", 400),
    ("GET", "/v1/logs", 200),
    ("GET", "/v1/logs/log_01h00000000000000000000000", 404),
    ("GET", "/v1/payments", 200),
    ("GET", "/v1/payments/pay_01h00000000000000000000000/proof", 404),
    ("GET", "/v1/services/nobody", 404),
    ("GET", "/v1/me", 200),
    ("GET", "/.well-known/allowance-keys.json", 200),
    ("GET", "/healthz", 200),
]
ALLOWED = {
    "POST": {"POST", "OPTIONS"},
    "GET": {"GET", "HEAD", "OPTIONS"},
    "GET and POST": {"GET", "HEAD", "POST", "OPTIONS"},
}
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "INITIAL", "PROPFIND"]


def test_every_error_of_the_contract_has_a_status():
    assert set(STATUS) == set(errors.ContractError.__subclasses__())


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("service_not_payable", 403), ("service_not_found", 404), ("log_entry_not_found", 404),
        ("invalid_api_key", 401), ("agent_paused", 403), ("service_not_approved", 403), ("idempotency_conflict", 409),
        ("budget_exceeded", 422), ("policy_signer_unavailable", 503), ("invalid_request", 400),
        ("idempotency_key_required", 400), ("insufficient_scope", 403), ("agent_not_found", 404),
        ("payment_not_found", 404), ("not_found", 404), ("method_not_allowed", 405), ("payload_too_large", 413),
        ("unsupported_media_type", 415), ("rate_limited", 429), ("internal_error", 500), ("outside_allowed_time", 403),
    ],
)  # fmt: skip
def test_an_error_code_has_the_status_of_the_contract(code, status):
    assert {error.code: number for error, number in STATUS.items()}[code] == status


@pytest.mark.parametrize(
    "address",
    ["/", "/v1", "/v1/", "/v1/nothing", "/V1/logs", "/v1//logs", "/v1/logs//", "/v1/logsx", "/v1/me/x",
     "/v1/payments/x/proof/y", "/v1/agents/a", "/v1/agents//budget", "/v2/logs", "/v1/logs;x",
     "/nothing.php", "/\u00fc", "/%00", "/%ff", "/v1/logs%0A", "/v1/services%0A", "/" + "x" * 9000],
)  # fmt: skip
def test_an_unknown_address_is_404_with_or_without_a_key(api, anonymous, address):
    for client in (api, anonymous):
        error_of(client.get(address), 404, "not_found")
        error_of(client.post(address, b"{broken"), 404, "not_found")


@pytest.mark.parametrize(("allowed", "address"), [page[:2] for page in PAGES])
@pytest.mark.parametrize("method", METHODS)
def test_an_address_that_does_not_answer_to_a_method_says_which_it_answers_to(anonymous, method, allowed, address):
    if method in ALLOWED[allowed]:
        return
    response = anonymous.send(method, address)

    error_of(response, 405, "method_not_allowed")
    assert methods_of(response) == ALLOWED[allowed]


def methods_of(response):
    return set(response["Allow"].replace(" ", "").split(","))


@pytest.mark.parametrize(
    ("allowed", "address"), [*(page[:2] for page in PAGES), ("GET", "/v1/openapi.json"), ("GET", "/v1/docs/")]
)
def test_options_is_answered_with_204_and_the_methods_whoever_asks(anonymous, api, allowed, address):
    for client, body in ((anonymous, b""), (api, b"{broken"), (api, b"x" * 100_000)):
        response = client.send("OPTIONS", address, body)

        assert (response.status_code, response.content) == (204, b"")
        assert methods_of(response) == ALLOWED[allowed]
        assert {"Content-Type", "Content-Length"}.isdisjoint(response.headers)
        assert response["Cache-Control"] == "no-store"
        assert response["X-Request-Id"]


def test_options_of_no_address_is_404(anonymous):
    for address in ("/", "/v1", "/v1/nothing", "*", "/metrics"):
        error_of(anonymous.send("OPTIONS", address), 404, "not_found")


def test_options_counts_as_no_request_of_a_key(api, settings):
    settings.RATE_LIMIT_PER_MINUTE = 1

    assert {api.send("OPTIONS", "/v1/logs").status_code for _ in range(5)} == {204}


@pytest.mark.parametrize(("method", "address", "status"), PAGES)
def test_both_forms_of_an_address_answer_without_a_redirect(api, method, address, status):
    method = method.rpartition(" ")[2]  # the last of several
    bare, slashed = (api.send(method, path, b"", "application/json") for path in (address, f"{address}/"))

    assert (bare.status_code, slashed.status_code) == (status, status)
    assert bare.content == slashed.content


@pytest.mark.urls("tests.foundation.api.test_envelope")
@pytest.mark.parametrize("address", ["/broken", "/v1/broken"])
def test_an_unexpected_error_is_500_and_tells_no_details(api, address):
    response = api.get(address)

    error = error_of(response, 500, "internal_error")
    assert list(error) == FIRST_MEMBERS
    assert b"swordfish" not in response.content
    assert b"Traceback" not in response.content


@pytest.mark.urls("tests.foundation.api.test_envelope")
def test_without_its_database_an_endpoint_says_retry_later(api):
    response = api.get("/v1/cut-off")

    error_of(response, 503, "policy_signer_unavailable")
    assert int(response["Retry-After"]) >= 1
    assert b"swordfish" not in response.content


@pytest.mark.urls("tests.foundation.api.test_envelope")
def test_a_read_that_is_too_slow_does_not_hide_that_the_disk_is_full(api, caplog, monkeypatch):
    def fail(_self, _request):
        raise OperationalError from causes.pop(0)

    monkeypatch.setattr(CutOffViewSet, "list", fail)
    causes = [QueryCanceled(), DiskFull(), QueryCanceled(), DiskFull()]
    for _ in range(4):
        error_of(api.get("/v1/cut-off"), 503, "policy_signer_unavailable")

    said = [record.exc_info for record in caplog.records if record.message == "The database did not answer."]
    assert [type(about[1].__cause__) for about in said if about and about[1]] == [QueryCanceled, DiskFull]


@pytest.mark.urls("tests.foundation.api.test_envelope")
def test_what_is_forbidden_outside_the_views_has_the_envelope_too(api):
    response = api.get("/forbidden")

    error_of(response, 403, "insufficient_scope")
    assert b"swordfish" not in response.content


@pytest.mark.parametrize("host", ["evil.example", "localhost:abc", "local_host", "[::1", "a" * 300, "localhost\u00fc"])
def test_a_host_that_is_not_ours_is_400(api, host):
    response = api.get("/v1/logs", host=host)

    error_of(response, 400, "invalid_request")
    assert "evil" not in response.content.decode()


def test_a_head_request_is_answered_like_get_without_a_body(api):
    response = api.send("HEAD", "/v1/logs")

    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("accept", ["text/html", "*/*;q=0", "application/xml", "nonsense", ""])
def test_json_is_answered_whatever_accept_says(api, accept):
    response = api.get("/v1/logs", accept=accept)

    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("request_id", ["a", "A-z_0.9:/+=x", "0af7651916cd43dd8448eb211c80319c", "x" * 128])
def test_a_sane_request_id_is_echoed(api, request_id):
    assert api.get("/v1/logs", x_request_id=request_id)["X-Request-Id"] == request_id
    assert api.get("/nothing", x_request_id=request_id)["X-Request-Id"] == request_id


@pytest.mark.parametrize(
    "request_id", ["", "x" * 129, "a b", "a\tb", "<script>", "a;b", "\u00e9", "a,b", 'a"b', "a\x00"]
)
def test_a_request_id_that_is_not_sane_is_replaced(api, request_id):
    found = api.get("/v1/logs", x_request_id=request_id)["X-Request-Id"]

    assert found != request_id
    assert re.fullmatch(f"req_{ULID}", found)


def test_a_request_without_an_id_is_given_one_of_its_own(api):
    first, second = (api.get("/v1/logs")["X-Request-Id"] for _ in range(2))

    assert re.fullmatch(f"req_{ULID}", first)
    assert first != second


@pytest.mark.parametrize(("method", "address"), [page[:2] for page in PAGES if "/v1/" in page[1]])
def test_no_answer_of_the_api_is_stored_in_a_cache(api, anonymous, method, address):
    assert api.send(method, address)["Cache-Control"] == "no-store"
    assert anonymous.send(method, address)["Cache-Control"] == "no-store"


def test_one_refusal_always_has_one_body(api):
    first, second = (api.get("/v1/agents/nobody/budget") for _ in range(2))

    assert first.content == second.content
    assert first["X-Request-Id"] != second["X-Request-Id"]


def test_no_answer_sets_a_cookie(api, anonymous):
    for response in (api.get("/v1/logs"), anonymous.get("/v1/logs"), anonymous.get("/nothing")):
        assert not response.cookies


@pytest.mark.parametrize("path", ["/healthz", "/healthz/", "/readyz"])
@pytest.mark.parametrize("host", ["evil.example", "10.0.0.7:8000", ""])
def test_the_probes_answer_whatever_host_the_platform_asks_for(anonymous, path, host, settings):
    settings.SECURE_SSL_REDIRECT = True
    with hearts_that_beat():
        assert anonymous.get(path, host=host).status_code == 200
