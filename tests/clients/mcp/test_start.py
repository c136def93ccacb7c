"""`python -m allowance_mcp` and the process `mcp` say what they miss, and start with nothing less."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foundation.environment.process_types import ProcessType
from foundation.environment.procfile import ROOT, commands_of
from tests.clients.mcp.talking import stdio_environment
from tests.support.factories import make_api_key
from tests.support.holders import READERS
from tests.support.ports import free_ports

INVENTED = "alw_" + "0" * 38


def start(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "allowance_mcp", *arguments],
        env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_help_names_the_variables():
    done = start(stdio_environment("", ""), "--help")

    assert done.returncode == 0
    assert "ALLOWANCE_URL" in done.stdout
    assert "ALLOWANCE_API_KEY" in done.stdout


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("", INVENTED, "Set ALLOWANCE_URL"),
        ("pay.example.com", INVENTED, "ALLOWANCE_URL: The base URL"),
        ("http://pay.example.com", INVENTED, "everybody on the way reads the API key"),
        ("https://user:word@pay.example.com", INVENTED, "neither user"),
        ("http://127.0.0.1:9", "", "Set ALLOWANCE_API_KEY"),
        ("http://127.0.0.1:9", "alw_something-secret", "Set ALLOWANCE_API_KEY"),
    ],
)
def test_without_an_address_and_a_key_it_ends_with_a_sentence_and_status_2(url, key, said):
    done = start(stdio_environment(url, key))

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "something-secret" not in done.stderr
    assert "word" not in done.stderr.replace("password", "")


@pytest.mark.usefixtures("committed")
def test_a_key_that_is_not_accepted_or_bound_to_no_agent_starts_nothing(servers):
    unbound = make_api_key()
    for key, said in ((INVENTED, "does not accept the key"), (unbound, "bound to no agent")):
        done = start(stdio_environment(servers.urls[0], key))

        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert key not in done.stderr


@pytest.mark.parametrize("variables", [{}, {"ALLOWANCE_URL": "https://pay.example.com", "MCP_ALLOWED_HOSTS": "*"}])
def test_the_process_ends_without_the_variables_that_it_needs(variables: dict[str, str], tmp_path: Path):
    (port,) = free_ports(1)
    ((*command,),) = commands_of("mcp", PORT=str(port), MCP_CONCURRENCY="1")
    done = subprocess.run(
        [sys.executable, *command, "--host", "127.0.0.1"],
        env={"PATH": os.environ["PATH"], **variables}, cwd=ROOT, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip

    assert done.returncode != 0
    assert ("MCP_ALLOWED_HOSTS" if variables else "ALLOWANCE_URL") in done.stderr


def test_the_process_reads_no_secret():
    assert [name for name, readers in READERS.items() if ProcessType.MCP in readers] == []
