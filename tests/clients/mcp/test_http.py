"""The process `mcp`: who is let in, by what name, how much, and how slowly."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from allowance_mcp.serving import BODY_DEADLINE_S, MOST_BODY_BYTES

from allowance.front.sockets import raise_file_limit
from foundation.api.errors import envelope
from foundation.environment.procfile import ROOT
from foundation.kernel.errors import InvalidApiKey
from policy.key_operations import revoke_api_key
from policy.models import ApiKey
from tests.clients.mcp.conftest import Cast
from tests.clients.mcp.talking import mcp_process
from tests.support.factories import make_api_key
from tests.support.nginx import nginx
from tests.support.wire import Siege, ask

pytestmark = pytest.mark.long(45)
LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "get_budget", "arguments": {}},
}
INVENTED = "alw_" + "0" * 38


def post(mcp: str, key: str | None, body: Any = LIST, **headers: str) -> requests.Response:
    sent = {"Accept": "application/json", **headers} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    return requests.post(f"{mcp}/mcp", json=body, headers=sent, timeout=90)


# --- Who --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", [None, "", "alw_short", INVENTED, "alw_é" + "0" * 37])
def test_a_key_that_is_missing_or_not_valid_gets_one_and_the_same_401(cast, mcp, key):
    sent = {} if key is None else {"Authorization": f"Bearer {key}".encode()}
    response = requests.post(f"{mcp}/mcp", json=LIST, headers=sent, timeout=60)

    assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, 'Bearer realm="allowance"')
    assert response.json() == envelope(InvalidApiKey())


def test_a_key_is_taken_from_one_authorization_header_alone(cast, mcp):
    key = cast.key.encode()
    body = json.dumps(LIST).encode()
    refused = [
        b"X-API-Key: " + key, b"Authorization: Basic " + key, b"Authorization: " + key,
        b"Authorization: Bearer " + key + b"\r\nAuthorization: Bearer " + key,
    ]  # fmt: skip

    for header in refused:
        head = b"POST /mcp?key=" + key + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        assert ask(mcp, head + header + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body).status == 401


def test_a_key_that_is_bound_to_no_agent_gets_403(cast, mcp):
    response = post(mcp, make_api_key())

    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")


def test_a_revoked_key_is_refused_at_once(cast, mcp):
    assert post(mcp, cast.key).status_code == 200

    revoke_api_key(ApiKey.objects.get(agent=cast.agent).pk, by="test")

    assert post(mcp, cast.key).status_code == 401


# --- What -------------------------------------------------------------------------------------------------------------
def test_one_post_is_one_json_answer_and_opens_no_session(cast, mcp):
    response = post(mcp, cast.key, CALL)

    assert response.headers["Content-Type"].startswith("application/json")
    assert "Mcp-Session-Id" not in response.headers
    assert response.json()["result"]["structuredContent"]["budget"]["agent_id"] == cast.agent.id


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_nothing_but_a_post_is_answered_so_nothing_is_held_open(cast, mcp, method):
    headers = {"Authorization": f"Bearer {cast.key}", "Accept": "text/event-stream", "Mcp-Session-Id": "1"}
    response = requests.request(method, f"{mcp}/mcp", headers=headers, timeout=60)

    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_there_is_nothing_beside_the_tools(cast, mcp):
    assert requests.get(f"{mcp}/", timeout=60).status_code == 404
    for method in ("prompts/list", "resources/list", "subscriptions/listen", "logging/setLevel", "completion/complete"):
        assert post(mcp, cast.key, {**LIST, "method": method, "params": {}}).json()["error"]["code"] in (-32601, -32602)
    unknown = {**CALL, "params": {"name": "create_agent", "arguments": {}}}
    assert post(mcp, cast.key, unknown).json()["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("Host", "evil.example", 421),
        ("Host", "localhost.evil.example", 421),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Host", "localhost:1", 200),
    ],
)
def test_a_page_in_a_browser_cannot_reach_it_under_a_name_of_its_own(cast, mcp, header, value, status):
    assert post(mcp, cast.key, **{header: value}).status_code == status


def test_it_answers_by_the_names_and_to_the_pages_that_the_operator_has_set(cast, tmp_path):
    variables = {"MCP_ALLOWED_HOSTS": "pay.example.com", "MCP_ALLOWED_ORIGINS": "https://app.example.com"}
    with mcp_process(cast.url, tmp_path / "log", **variables) as mcp:
        assert post(mcp, cast.key).status_code == 421
        assert post(mcp, cast.key, Host="pay.example.com").status_code == 200
        assert post(mcp, cast.key, Host="pay.example.com", Origin="https://app.example.com").status_code == 200


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 60_000, b'{"jsonrpc": "2.0", "id": 1}', b"null", b""])
def test_what_is_no_request_gets_400(cast, mcp, body):
    headers = {"Authorization": f"Bearer {cast.key}", "Accept": "application/json", "Content-Type": "application/json"}

    assert requests.post(f"{mcp}/mcp", data=body, headers=headers, timeout=60).status_code == 400


# --- How much, how slowly ---------------------------------------------------------------------------------------------
def test_a_body_that_is_too_large_gets_413(cast, mcp):
    fits = {**LIST, "params": {"_meta": {"x": "y" * (MOST_BODY_BYTES - 500)}}}

    assert post(mcp, cast.key, fits).status_code == 200
    assert post(mcp, cast.key, {**LIST, "params": {"x": "y" * MOST_BODY_BYTES}}).status_code == 413


def test_a_crowd_of_calls_of_one_agent_keeps_no_other_waiting_for_all_of_them(cast, mcp):
    other = Cast.make(cast.url)
    with ThreadPoolExecutor(100) as pool:
        crowd = [pool.submit(post, mcp, cast.key, CALL) for _ in range(300)]
        served = [post(mcp, other.key, CALL).json()["result"]["isError"] for _ in range(5)]
        statuses = {one.result().status_code for one in crowd}

    assert served == [False] * 5
    assert statuses <= {200, 429}
    assert 200 in statuses


def test_a_crowd_with_invented_keys_keeps_nobody_waiting_who_is_known(cast, mcp):
    assert post(mcp, cast.key).status_code == 200
    with ThreadPoolExecutor(60) as pool:
        crowd = [pool.submit(post, mcp, f"alw_{number:038}") for number in range(200)]
        served = [post(mcp, cast.key, CALL).status_code for _ in range(5)]
        statuses = {one.result().status_code for one in crowd}

    assert served == [200] * 5
    assert statuses <= {401, 429}


def test_slow_bodies_do_not_stay_and_take_no_place_from_others(cast, mcp):
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {cast.key}"
    )
    siege = Siege(mcp, f"{head}\r\nContent-Length: 60000\r\n\r\n".encode(), b"x", count=60)
    unknown = Siege(mcp, head.replace(cast.key, INVENTED).encode() + b"\r\nContent-Length: 9\r\n\r\n", b"x", count=60)
    other = Cast.make(cast.url)

    with siege.laid(), unknown.laid():
        served = [post(mcp, other.key, CALL).status_code for _ in range(10)]
        deadline = time.monotonic() + BODY_DEADLINE_S + 30
        while len(siege.lasted_s) < siege.count and time.monotonic() < deadline:
            time.sleep(0.1)

    assert served == [200] * 10
    assert len(siege.lasted_s) >= siege.count


def test_a_thousand_connections_without_a_request_shut_nobody_out(cast, mcp):
    raise_file_limit()  # for the clients, which are all in this process
    silent = Siege(mcp, b"POST /mcp HTTP/1.1\r\nHost: ", b"x", count=1200)

    with silent.laid():
        served = [post(mcp, cast.key, CALL).status_code for _ in range(5)]

    assert served == [200] * 5
    assert len(silent.lasted_s) < silent.count


def test_the_health_check_of_a_container_asks_it(mcp):
    command = [sys.executable, "-m", "allowance.healthy", "mcp"]
    for port, status in ((mcp.rpartition(":")[2], 0), ("9", 1)):
        done = subprocess.run(command, env={"PORT": port}, cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == status


def test_it_is_reached_through_the_proxy_that_ends_tls(cast, mcp, tmp_path):
    web_port, mcp_port = (int(url.rpartition(":")[2]) for url in (cast.url, mcp))
    headers = {"Accept": "application/json", "Authorization": f"Bearer {cast.key}"}
    with nginx(tmp_path, web_port, mcp_port) as proxy, proxy.session() as session:
        called = session.post(f"{proxy.url}/mcp", json=CALL, headers=headers, timeout=60)
        unknown = session.post(f"{proxy.url}/mcp", json=CALL, timeout=60)
        large = session.post(f"{proxy.url}/mcp", data=b"x" * 70_000, headers=headers, timeout=60)

    assert called.json()["result"]["structuredContent"]["status"] == "ok"
    assert (unknown.status_code, unknown.headers["WWW-Authenticate"]) == (401, 'Bearer realm="allowance"')
    assert (large.status_code, large.json()["error"]["code"]) == (413, "payload_too_large")
    assert cast.key not in proxy.log.read_text()


def test_web_that_is_away_is_a_503_that_says_when_to_come_again(committed, tmp_path):
    with mcp_process("http://127.0.0.1:9", tmp_path / "log") as mcp:
        response = post(mcp, INVENTED)

    assert (response.status_code, response.headers["Retry-After"]) == (503, "2")
