"""Every way to run the product starts the processes of the Procfile, with no more keys and rights than each needs."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from foundation.environment.process_types import ProcessType
from foundation.environment.procfile import commands_of, process_names
from foundation.environment.table import is_reader, is_secret
from tests.deployment import ways
from tests.deployment.ways import OPTIONAL, PROCESSES
from tests.documents.pages import ROOT

_ALL = ("release", *PROCESSES)
_LINES = (*_ALL, OPTIONAL)
# Of whom is asked more than of a process of ours.
_SERVERS = ("proxy", "database", "redis")
_RUN = "python -m allowance.run"


def seconds(text):
    return int(str(text).removesuffix("s"))


def longest_stops():
    found = dict(re.findall(r"(?m)^(\w+): .*--workers-kill-timeout (\d+)", (ROOT / "Procfile").read_text()))
    return {name: int(least) for name, least in found.items()} | {"worker": 30, "webhooks": 30, "beat": 10}


def test_whoever_asks_a_release_for_help_starts_none():
    command = [sys.executable, "-m", "allowance.run", "release", "--help"]
    nowhere = {**os.environ, "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nowhere", "EMBEDDED": "false"}

    said = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=True).stdout

    assert "python manage.py migrate --noinput\n" in said
    assert said.startswith("release runs these, one after the other")


# --- Who is started, and how ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", _LINES)
def test_a_line_of_the_procfile_is_read_as_a_shell_reads_it(name):
    variables = {"PORT": "8123", "WORKER_CONCURRENCY": "7"}
    line = next(line for line in (ROOT / "Procfile").read_text().splitlines() if line.startswith(f"{name}: "))

    words = []
    for part in line.removeprefix(f"{name}: ").split(" && "):
        told = subprocess.run(
            ["sh", "-c", f'for word in {part}; do printf "%s\\n" "$word"; done'],
            env=variables, check=True, capture_output=True, text=True,
        ).stdout.splitlines()  # fmt: skip
        words.append(told[1:] if told[0] == "python" else ["-m", *told])

    assert process_names() == [*_LINES]
    unset = {f"{kind}_CONCURRENCY": "" for kind in ("WEB", "WEBHOOK", "MCP")}
    assert commands_of(name, **variables, **unset) == words


def test_every_way_starts_every_process():
    image = dict(ways.dockerfile())
    assert " ".join(json.loads(image["ENTRYPOINT"])) == _RUN
    services = ways.compose()["services"]
    assert {name: services[name]["command"] for name in _LINES} == {name: [name] for name in _LINES}
    fly = ways.fly()
    assert fly["processes"] | {"release": fly["deploy"]["release_command"]} == {name: name for name in _ALL}
    assert ways.app()["formation"].keys() == {*PROCESSES, OPTIONAL}
    render = ways.render()
    assert render["web"]["preDeployCommand"] == f"{_RUN} release"
    assert {name: one["startCommand"] for name, one in render.items()} == {n: f"{_RUN} {n}" for n in PROCESSES}


def test_units_start_every_process_and_web_for_its_host_alone():
    started = {name: one["ExecStart"].removeprefix("/opt/allowance/.venv/bin/") for name, one in ways.units().items()}

    alone = {"web": f"{_RUN} web --host 127.0.0.1", OPTIONAL: f"{_RUN} {OPTIONAL} --host 127.0.0.1 --port 8001"}
    assert started == {name: f"{_RUN} {name}" for name in _ALL} | alone
    target = (ROOT / "deploy/systemd/allowance.target").read_text()
    assert f"Wants={' '.join(f'allowance-{name}.service' for name in PROCESSES)}\n" in target


def test_what_is_optional_runs_only_where_somebody_says_so():
    assert [name for name, one in ways.compose()["services"].items() if one.get("profiles") == [OPTIONAL]] == [OPTIONAL]
    assert ways.app()["formation"][OPTIONAL]["quantity"] == 0
    assert OPTIONAL not in {*ways.render(), *ways.fly()["processes"]}
    assert f"allowance-{OPTIONAL}.service" not in (ROOT / "deploy/systemd/allowance.target").read_text()


def test_beat_is_started_once():
    assert ways.compose()["services"]["beat"]["deploy"]["replicas"] == 1
    assert ways.render()["beat"]["numInstances"] == 1
    assert ways.app()["formation"]["beat"]["quantity"] == 1


def test_web_is_checked_and_so_are_the_others_where_that_can_be():
    command = "python -m allowance.healthy"
    services = ways.compose()["services"]
    for name in (*PROCESSES, OPTIONAL):
        assert services[name]["healthcheck"]["test"] == ["CMD", *command.split(), name]
    assert dict(ways.dockerfile())["HEALTHCHECK"].endswith(f"CMD {json.dumps([*command.split(), 'web'])}")
    (fly,) = ways.fly()["http_service"]["checks"]
    paths = {
        fly["path"],
        ways.render()["web"]["healthCheckPath"],
        *(o["path"] for o in ways.app()["healthchecks"]["web"]),
    }
    assert paths == {"/healthz"}


def test_nobody_is_killed_while_it_still_finishes_what_it_has_begun():
    services, units, render = ways.compose()["services"], ways.units(), ways.render()
    for name, least in longest_stops().items():
        assert seconds(services[name]["stop_grace_period"]) > least
        assert seconds(units[name]["TimeoutStopSec"]) > least
        assert name == OPTIONAL or render[name]["maxShutdownDelaySeconds"] > least
    assert ways.fly()["kill_timeout"] > longest_stops()["web"]
    assert dict(ways.dockerfile())["STOPSIGNAL"] == "SIGTERM"


# --- What each gets and may do ----------------------------------------------------------------------------------------
def test_each_process_gets_the_variables_of_its_own_file_alone():
    services, units = ways.compose()["services"], ways.units()
    for name in _LINES:
        assert services[name]["env_file"] == [f"env/{name}.env"]
        assert "environment" not in services[name]
        assert units[name]["EnvironmentFile"] == f"/etc/allowance/{name}.env"
        assert not any(map(is_secret, re.findall(r"(\w+)=", units[name]["Environment"])))


@pytest.mark.parametrize("name", PROCESSES)
def test_render_gives_each_process_the_keys_that_it_reads(name):
    needed = {one["key"] for one in ways.render()["web"]["envVars"] if is_secret(one["key"])}

    given = {one["key"] for one in ways.render()[name]["envVars"] if is_secret(one["key"])}

    assert {"DATABASE_URL", "RELAYER_SEED", "WEBHOOK_SECRETS_KEY"} <= needed
    assert given == {key for key in needed if is_reader(frozenset({ProcessType(name)}), key)}


def test_nothing_runs_as_root_or_writes_where_it_should_not():
    services = ways.compose()["services"]
    user, group = dict(ways.dockerfile())["USER"].split(":")
    assert (int(user), int(group)) > (999, 999)
    assert all("user" not in services[name] for name in (*_LINES, "manage"))
    assert {name: services[name]["user"] for name in _SERVERS} == {
        "proxy": "nginx",
        "database": "postgres",
        "redis": "redis",
    }
    for service in services.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["deploy"]["resources"]["limits"].keys() == {"memory", "pids"}
    for unit in ways.units().values():
        assert (unit["User"], unit["ProtectSystem"], unit["NoNewPrivileges"]) == ("allowance", "strict", "yes")


def test_nothing_but_the_proxy_is_reached_from_outside():
    services = ways.compose()["services"]
    assert {name for name, one in services.items() if "ports" in one} == {"proxy"}
    inside = {name for name, one in ways.compose()["networks"].items() if one.get("internal")}
    assert {*services["database"]["networks"], *services["redis"]["networks"]} <= inside


def test_webhooks_shares_a_network_with_database_and_redis_alone():
    services = ways.compose()["services"]
    own = {*services["webhooks"]["networks"]}
    beside = {name for name, one in services.items() if own & {*one["networks"]}}
    assert beside == {"webhooks", "database", "redis"}


def test_the_image_gets_what_a_server_runs_and_nothing_else():
    names = {path.name for path in ways.context()}
    assert all(path.exists() for path in ways.context())
    assert ROOT / "docs/integrate" in ways.context()  # it is served
    assert not names & {
        "tests",
        "docs",
        "workshop",
        "owner",
        "env",
        ".git",
        ".env",
        ".data",
        ".venv",
        "deploy",
        "Makefile",
    }
    assert {"**/.env*", "**/__pycache__/"} <= {*(ROOT / ".dockerignore").read_text().splitlines()}
    ((_, copied),) = [one for one in ways.dockerfile() if one[0] == "COPY" and one[1].startswith(".")]
    assert copied == ". /srv/allowance"
    installs = [value for name, value in ways.dockerfile() if name == "RUN" and "install" in value]
    assert all("--require-hashes" in one and "--no-deps" in one and "--only-binary :all:" in one for one in installs)
    # The owner's image is given the owner's keys: nothing comes into it but what the checkout has.
    assert "install" not in "".join(
        line for line in (ROOT / "owner/Dockerfile").read_text().splitlines() if line[0] != "#"
    )


# --- What the tools of each say ---------------------------------------------------------------------------------------
def test_hadolint_finds_nothing_in_the_dockerfiles():
    subprocess.run([f"{sys.exec_prefix}/bin/hadolint", "Dockerfile", "owner/Dockerfile"], cwd=ROOT, check=True)


def test_compose_is_valid_by_its_specification():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    subprocess.run(command, cwd=ROOT, check=True)


def test_systemd_understands_the_units_and_finds_them_well_contained(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None and "CI" not in os.environ:
        pytest.skip("systemd is not installed (Debian: apt-get install systemd)")
    assert program, ".ci/run installs systemd"
    folder = tmp_path / "units"
    shutil.copytree(ROOT / "deploy/systemd", folder)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/allowance/.venv/bin/python", sys.executable))
    names = sorted(str(path) for path in folder.glob("*.[st]*") if path.is_file())

    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"}
    verified = subprocess.run([program, "verify", *names], env=environment, check=True, capture_output=True, text=True)
    judge = [program, "security", "--offline=true", "--threshold=15", "--no-pager"]  # 15: 1.5 of 10
    judged = [
        subprocess.run([*judge, name], env=environment, check=False, capture_output=True, text=True)
        for name in names
        if name.endswith(".service")
    ]

    assert (len(names), verified.stderr) == (7, "")
    assert [one.stdout[-200:] for one in judged if one.returncode] == []


def test_the_list_for_a_release_has_every_package_that_a_server_installs(tmp_path):
    makefile = (ROOT / "Makefile").read_text()
    (command,) = re.findall(r"\$\(PY\) (-m cyclonedx_py .*) -o sbom\.cdx\.json", makefile)

    file = tmp_path / "sbom.cdx.json"
    subprocess.run([sys.executable, "-W", "ignore", *command.split(), "-o", str(file)], cwd=ROOT, check=True)

    listed = {f"{one['name']}=={one['version']}" for one in json.loads(file.read_text())["components"]}
    locked = re.findall(r"(?m)^([a-z0-9._-]+)(?:\[[^\]]*\])?(==[^ \n]+)", (ROOT / "requirements.txt").read_text())
    assert {name + version for name, version in locked} == listed
