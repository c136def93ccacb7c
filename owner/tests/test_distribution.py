"""`allowance-owner` as an owner installs it: beside a server that has none of it, and reads none of its keys."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from django.conf import settings

from foundation.environment.table import setting_of
from foundation.kernel.version import VERSION
from tests.deployment import ways
from tests.test_project import ROOT, pins

COMMANDS = {"deploy_escrow", "deposit", "fund_relayers", "owner_calls", "rotate_keys", "withdraw_funds"}
KEYS = {"DEPLOYER_KEY", "DEPOSIT_KEY", "OLD_POLICY_SIGNER_SOLANA_KEY", "OLD_RELAYER_SEED"}
PROJECT = tomllib.loads((ROOT / "owner/pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install its wheel, built from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("owner")
    shutil.copytree(ROOT / "owner", folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    install = ["install", *offline, "--no-deps", "--target", str(folder / "target"), str(folder / "source")]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)
    return folder / "target"


@pytest.fixture(scope="module")
def announced(server):
    """Announce it beside a server as docs/operate/owner.md says: nothing is fetched or built."""
    shutil.copytree(ROOT / "owner", server / "program/owner", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    command = [sys.executable, "-I", "program/distributions.py", "announced", "program/owner"]
    subprocess.run(command, cwd=server, check=True)
    yield server / "announced"
    shutil.rmtree(server / "program/owner")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server: what the image has of this checkout, and of the packages all that are not from it."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "packages").mkdir()
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if not one.name.startswith("allowance"):
            (folder / "packages" / one.name).symlink_to(one)
    for one in ways.context():
        there = folder / "program" / one.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        if one.is_dir():
            there.symlink_to(one)
        else:
            shutil.copy(one, there)  # of a link, Python would look into the folder that it leads to
    return folder


def run(server, *command, beside=()):
    """Run a command of the server; Python finds its packages, what is installed `beside` them, and nothing else."""
    variables = {"PYTHONPATH": ":".join(str(one) for one in (server / "packages", *beside)), "PATH": "/usr/bin"}
    asked = [sys.executable, "-S", "manage.py", *command]
    return subprocess.run(asked, cwd=server / "program", env=variables, capture_output=True, text=True, check=False)


def test_it_has_its_commands_and_says_what_it_needs(installed):
    files = {path.relative_to(installed).as_posix() for path in installed.rglob("*.py")}
    (metadata,) = installed.glob("*.dist-info/METADATA")
    told = Parser().parsestr(metadata.read_text())

    assert {f"owner/management/commands/{name}.py" for name in COMMANDS} <= files
    assert {file.split("/")[0] for file in files} == {"owner"}
    assert not [file for file in files if "test" in file]
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("allowance-owner", VERSION, "Apache-2.0")
    # No index has the product: whoever put something there under its name would be handed keys.
    assert not [one for one in told.get_all("Requires-Dist", []) if one.startswith("allowance")]


def test_whoever_installs_it_beside_a_server_needs_no_other_package():
    needed = {re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["dependencies"]}

    assert needed - pins("requirements.txt").keys() == set()


def test_a_server_has_none_of_its_commands(server):
    said = run(server, "help")

    assert said.returncode == 0, said.stderr
    assert "[payments]" in said.stdout
    assert not COMMANDS & {*said.stdout.split()}
    assert "Unknown command: 'deploy_escrow'" in run(server, "help", "deploy_escrow").stderr


def test_beside_a_server_its_commands_are_there(server, installed):
    said = run(server, "help", beside=[installed])

    assert {*said.stdout.split()} >= COMMANDS, said.stderr
    assert "--daily-cap" in run(server, "help", "deploy_escrow", beside=[installed]).stdout


def test_announced_beside_a_server_its_commands_are_there_too(server, announced):
    said = run(server, "help", beside=[announced])

    assert {*said.stdout.split()} >= COMMANDS, said.stderr


def test_no_server_reads_an_owner_s_key():
    assert [name for name in KEYS if setting_of(name).holders] == []
    assert [name for name in KEYS if hasattr(settings, name)] == []


def test_this_checkout_s_python_has_it_as_it_is_declared():
    found = distribution(PROJECT["name"])

    assert found.version == PROJECT["version"] == VERSION
    declared = {(group, *point) for group, points in PROJECT["entry-points"].items() for point in points.items()}
    assert {(one.group, one.name, one.value) for one in found.entry_points} == declared
