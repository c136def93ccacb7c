"""Each type of process starts as the image starts it: alone with its own keys, writing nowhere, and ends when asked."""

import os
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from foundation.environment.process_types import ProcessType
from foundation.environment.table import is_reader
from tests.deployment.image import Image, insist_on_namespaces
from tests.deployment.ways import OPTIONAL, PROCESSES
from tests.support.holders import READERS
from tests.support.house import server_environment
from tests.support.kills import wait_until
from tests.support.pooler import pooler
from tests.support.ports import free_ports

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(30)]
CAP_DAC_READ_SEARCH = 1 << 2
_ONE_EACH = {"WEB_CONCURRENCY": "1", "WORKER_CONCURRENCY": "1", "WEBHOOK_CONCURRENCY": "1"}


@pytest.fixture(scope="module")
def image():
    insist_on_namespaces()
    root = Path(tempfile.mkdtemp(prefix="image-"))  # pytest's own folders are closed to other users
    root.chmod(0o755)
    yield Image(root)
    root.rmdir()


def variables_of(name, port, database):
    """Give what `manage.py setup --split` writes for a process, of the installation of the tests."""
    kind = frozenset({ProcessType(name)})
    ours = {**server_environment(), "ALLOWED_HOSTS": "localhost", "DATABASE_URL": database}
    kept = {one: value for one, value in ours.items() if one in READERS or one.startswith("CHAIN_")}
    kept = {one: value for one, value in kept.items() if is_reader(kind, one)}
    return {**kept, **_ONE_EACH, "PORT": str(port), "PREPARED_STATEMENTS": "false"}


@pytest.fixture
def database():
    """The tests' database at a port: its own socket is closed to the image's user."""
    with pooler(10) as running:
        yield running.url


def test_every_process_works_as_the_image_starts_it_and_ends_when_it_is_asked(image, database, tmp_path):
    (port,) = free_ports(1)
    variables = {name: variables_of(name, port, database) for name in PROCESSES}
    files = ExitStack()
    logs = {name: files.enter_context((tmp_path / name).open("w+")) for name in PROCESSES}
    assert not is_healthy(image, "webhooks", variables["webhooks"])

    processes = {
        name: image.start([*image.entrypoint, name], variables[name], stdout=logs[name], stderr=subprocess.STDOUT)
        for name in PROCESSES
    }
    try:
        for name in PROCESSES:
            wait_until(partial(is_healthy, image, name, variables[name]), f"{name} works")
            who = dict(line.split(":\t") for line in status_of(processes[name].pid) if ":\t" in line)
            assert who["Uid"].split() == ["10001"] * 4
            assert who["CapEff"] in ("0" * 16, f"{CAP_DAC_READ_SEARCH:016x}")
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        ended = {name: process.wait(timeout=60) for name, process in processes.items()}

    files.close()
    said = {name: (tmp_path / name).read_text() for name in PROCESSES}
    assert ended == dict.fromkeys(PROCESSES, 0), said
    assert not any("Read-only" in text or "Permission denied" in text for text in said.values()), said


def test_the_tools_over_mcp_work_as_the_image_starts_them_and_need_no_more_than_an_address(image, tmp_path):
    (port,) = free_ports(1)
    variables = {"PORT": str(port), "ALLOWANCE_URL": "http://127.0.0.1:9"}
    with (tmp_path / "log").open("w+") as log:
        process = image.start([*image.entrypoint, OPTIONAL], variables, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(partial(is_healthy, image, OPTIONAL, variables), f"{OPTIONAL} works")
        finally:
            process.send_signal(signal.SIGTERM)
            ended = process.wait(timeout=60)

    said = (tmp_path / "log").read_text()
    assert ended == 0, said
    assert not any(trouble in said for trouble in ("Read-only", "Permission denied", "Traceback")), said


def test_a_process_of_the_image_cannot_change_it_and_does_not_see_what_was_left_out(image):
    status, said = image.run(["sh", "-c", "touch allowance/x x; ls; ls docs; touch tmp/x && ls tmp"], {})

    assert status == 0
    assert said.count("Read-only file system") == 2
    assert "Procfile" in said.split()
    assert "integrate" in said.split()  # the pages that it serves
    assert not {"tests", "decisions", "workshop", ".git"} & {*said.split()}


def test_a_name_that_is_no_process_is_refused(image):
    status, said = image.run([*image.entrypoint, "wep"], {})

    assert (status, said) == (
        1,
        "usage: python -m allowance.run release|web|worker|webhooks|beat|mcp|manage [ARGUMENT ...]\n",
    )


def test_commands_are_run_by_their_names(image):
    status, said = image.run([*image.entrypoint, "manage", "version"], {})

    assert (status, os.linesep in said) == (0, True)


def is_healthy(image, name, variables):
    return image.run([*image.health_check[:-1], name], variables)[0] == 0


def status_of(pid):
    return Path(f"/proc/{pid}/status").read_text().splitlines()
