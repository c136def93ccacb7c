"""`make demo` for real: every process, the whole story, over the data that the run before has left."""

import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from solders.pubkey import Pubkey
from spl.token.instructions import get_associated_token_address

from workshop.localnet.folder import ROOT
from workshop.tests.demo.running import PATIENCE_S, Demo, processes_of, wait_for

pytestmark = pytest.mark.long(60)

Start = Callable[..., Demo]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data folder for all tests here: the first run makes it, the later ones find it in use."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    started: list[Demo] = []

    def start(*arguments: str, **variables: str) -> Demo:
        started.append(Demo(folder, *arguments, **variables))
        return started[-1]

    yield start
    for demo in started:
        if demo.process.returncode is None:
            demo.kill()
    wait_for(lambda: not processes_of(folder), PATIENCE_S)


def test_nothing_outlives_a_demo_that_is_killed(start, folder):
    demo = start()
    demo.wait_until_it_says("weather-api receives webhooks about its payment")

    demo.kill()

    wait_for(lambda: processes_of(folder) == {}, PATIENCE_S)


@pytest.mark.hard  # `.ci/run` plays all of it on a fresh machine
def test_a_demo_plays_all_of_it_lets_programs_find_what_they_need_and_ends_quietly(start, folder, tmp_path):
    file = tmp_path / "access.json"
    demo = start("--json", str(file))
    access = demo.wait_for_file(file)
    assert re.search(r"run \d+:", demo.output)
    _assert_as_promised(demo.output)
    _assert_programs_find_what_they_need(access, file, folder)

    demo.process.send_signal(signal.SIGTERM)
    status, output = demo.finish()

    assert status == 0, output
    assert output.endswith("Stopping ... done\n")
    assert {access["apiKey"], access["mcp"]["url"], access["mcp"]["apiKey"]} <= set(output.split())
    assert access["console"]["password"] in output
    assert processes_of(folder) == {}


def test_a_process_that_ends_is_named_with_its_last_words(start, folder):
    demo = start()
    demo.wait_until_ready()
    (beat,) = (pid for pid, command in processes_of(folder).items() if " beat " in command)

    os.kill(beat, signal.SIGKILL)
    status, output = demo.finish()

    assert status == 1
    assert f"beat ended unexpectedly (SIGKILL). The end of {folder}/logs/beat.log:" in output
    assert processes_of(folder) == {}


def test_a_port_that_is_taken_is_refused(start, folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        status, output = start("--port", str(port)).finish()

    assert status == 1
    assert f"Port {port} is taken" in output
    assert processes_of(folder) == {}


def test_without_embedded_the_demo_is_refused(start):
    status, output = start(EMBEDDED="false").finish()

    assert status == 1
    assert "only with EMBEDDED=true: run `make demo`" in output


def _assert_programs_find_what_they_need(access: dict[str, Any], file: Path, folder: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert access["url"].rpartition(":")[0] == "http://127.0.0.1"
    with _session() as session:
        headers = {"Authorization": f"Bearer {access['apiKey']}"}
        budget = session.get(f"{access['url']}/v1/agents/agent-research/budget", headers=headers)
        assert budget.json()["status"] == "active"
        assert _login(session, access["console"]).is_redirect
        assert _ask_a_tool(session, access["mcp"])["budget"]["agent_id"] == access["mcp"]["agent"] == "agent-research"
        payment = {"agentId": "agent-research", "service": access["webhooks"]["service"], "amount": "0.25"}
        payment |= {"asset": "USDC", "reason": "My own"}
        address = f"{access['url']}/v1/payments/request"
        paid = session.post(address, json=payment, headers=headers | {"Idempotency-Key": "my-own"})
        assert paid.status_code == 201, paid.text
    _assert_the_example_pays_once(access, file.with_name("purchase.key"))
    log = Path(access["webhooks"]["log"])
    assert log.parent == folder / "logs"
    told = ["payment.approved", "payment.settled"]
    wait_for(lambda: sorted(_verified_events(log, paid.json()["id"])) == told, PATIENCE_S)
    assert not [command for command in processes_of(folder).values() if "whsec_" in command]
    help_ = subprocess.run([*shlex.split(access["manage"]), "help"], cwd="/", capture_output=True, check=True)
    assert b"create_agent" in help_.stdout
    evm, solana = (access["chains"][alias] for alias in ("evm-localnet", "solana-localnet"))
    assert {asset: _balance(evm, token) > 900_000 * 10**6 for asset, token in evm["tokens"].items()} == dict.fromkeys(
        ["USDC", "USDT", "PYUSD", "EURC"], True
    )
    # The escrow that is named is that of the Token program; PYUSD is of the other one.
    assert {
        asset: _balance_on_solana(solana, mint) > 90_000 * 10**6
        for asset, mint in solana["tokens"].items()
        if asset != "PYUSD"
    } == dict.fromkeys(["SOL", "USDC", "USDT", "EURC"], True)


def _assert_the_example_pays_once(access: dict[str, Any], key_file: Path) -> None:
    """Run the Python client's example twice: it pays and waits for the chain, then finds what it has paid."""
    variables = {"ALLOWANCE_URL": access["url"], "ALLOWANCE_API_KEY": access["apiKey"]}
    command = [sys.executable, str(ROOT / "clients/python/examples/pay.py"), access["webhooks"]["service"], "0.25"]
    first, again = (
        subprocess.run(
            [*command, str(key_file)],
            env={**variables, "ALLOWANCE_AGENT": "agent-research", "PYTHONPATH": str(ROOT / "clients/python")},
            cwd="/",
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        for _ in range(2)
    )

    assert [line.partition(":")[0] for line in first] == ["asked", "paid", "settled"]
    assert [line.partition(":")[0] for line in again] == ["asked", "found", "settled"]
    assert first[1:] == [again[1].replace("found", "paid"), again[2]]


def _assert_as_promised(output: str) -> None:
    kept, steps = re.findall(r"(\d+) of (\d+) steps came out as promised", output)[0]
    assert kept == steps, output
    assert "✗" not in output
    assert "\x1b" not in output
    unwrapped = " ".join(output.split())
    told = re.findall(r"✓ came (payment\.\w+) evt_\w{26} and (payment\.\w+) evt_\w{26}, both verified", unwrapped)
    assert [set(types) for types in told] == [{"payment.approved", "payment.settled"}], output
    # Of a secret nobody is shown more than how it begins.
    assert {len(secret) for secret in re.findall(r"whsec_\S+", output)} == {len("whsec_abcd…")}


def _verified_events(log: Path, payment_id: str) -> set[str]:
    """Read which events of a payment the payee's receiver has verified."""
    lines = log.read_text().split("\n")[:-1]
    printed = [json.loads(line) for line in lines if line.startswith("{")]
    return {one["type"] for one in printed if one["verified"] and one["body"]["data"]["paymentId"] == payment_id}


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    return session


def _ask_a_tool(session: requests.Session, mcp: dict[str, str]) -> dict[str, Any]:
    """Call the tool get_budget as a model's program does that knows the address and the bound key alone."""
    params: dict[str, Any] = {"name": "get_budget", "arguments": {}}
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Authorization": f"Bearer {mcp['apiKey']}", "Accept": "application/json, text/event-stream"}
    answer = session.post(mcp["url"], json=call, headers=headers)
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return content


def _login(session: requests.Session, console: dict[str, str]) -> requests.Response:
    address = f"{console['url']}login/"
    session.get(address)
    form = {"username": console["username"], "password": console["password"], "next": "/console/"}
    form["csrfmiddlewaretoken"] = str(session.cookies.get("csrftoken"))
    return session.post(address, form, allow_redirects=False)


def _balance(chain: dict[str, str], token: str) -> int:
    call = {"to": token, "data": f"0x70a08231{chain['escrow'].removeprefix('0x'):0>64}"}  # balanceOf(address)
    return int(_ask(chain, "eth_call", call, "latest"), 16)


def _balance_on_solana(chain: dict[str, str], mint: str) -> int:
    account = get_associated_token_address(Pubkey.from_string(chain["escrow"]), Pubkey.from_string(mint))
    return int(_ask(chain, "getTokenAccountBalance", str(account))["value"]["amount"])


def _ask(chain: dict[str, str], method: str, *params: Any) -> Any:
    body: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with _session() as session:
        return session.post(chain["rpcUrl"], json=body).json()["result"]
