"""Every process and command refuses to start without the keys that it needs, and reads no others."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from allowance import celery
from foundation.environment.process_types import ProcessType, types_of_celery
from foundation.environment.procfile import web_command
from foundation.environment.table import is_reader
from payments.models import Relayer
from services.models import WebhookSecret
from tests.support.holders import READERS
from tests.support.house import server_environment
from tests.support.ports import free_ports

# Starting takes seconds; whoever still runs after this has not refused.
PATIENCE_S = 120
_CELERY = ("-m", "celery", "--app", "allowance")
_WORKER = (*_CELERY, "worker", "--pool", "solo", "--without-gossip", "--without-mingle")
_TYPES = {
    ProcessType.WORKER: (*_WORKER, "--queues", "celery"),
    ProcessType.WEBHOOKS: (*_WORKER, "--queues", "webhooks"),
    ProcessType.BEAT: (*_CELERY, "beat"),
}
_BOTH = _WORKER


def run(arguments, environment):
    """Run Python; returns the status and all that was printed. Whoever does not end by itself fails the test."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=settings.BASE_DIR,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


def in_production(*left_out):
    """Give a process the installation of the tests as one that is configured, not embedded."""
    ours = {name: value for name, value in server_environment().items() if not name.startswith(("EMBEDDED", "PYTEST_"))}
    return {name: value for name, value in {**ours, "ALLOWED_HOSTS": "localhost"}.items() if name not in left_out}


def count_of_rows():
    return Relayer.objects.count(), Relayer.objects.filter(is_enabled=True).count(), WebhookSecret.objects.count()


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (_TYPES[ProcessType.WORKER], "RELAYER_SEED"),
        (_TYPES[ProcessType.WORKER], "POLICY_SIGNER_SECP256K1_KEY"),
        # What it ends that was held for a person's approval is an entry of the log.
        (_TYPES[ProcessType.WORKER], "POLICY_SIGNER_ED25519_KEY"),
        (_TYPES[ProcessType.WEBHOOKS], "WEBHOOK_SECRETS_KEY"),
        (_TYPES[ProcessType.WEBHOOKS], "WEBHOOK_SIGNING_KEY"),
        (_TYPES[ProcessType.BEAT], "REDIS_URL"),
        (_BOTH, "RELAYER_SEED"),
        (_BOTH, "WEBHOOK_SECRETS_KEY"),
        # Where help would be asked for, if these were not the values of options.
        ((*_BOTH, "--hostname", "-h"), "RELAYER_SEED"),
        ((*_TYPES[ProcessType.BEAT], "--schedule", "--help"), "REDIS_URL"),
        ((*_CELERY, "inspect", "--destination", "--version", "ping"), "REDIS_URL"),
        (("manage.py", "shell", "--skip-checks", "--command", "--help"), "RELAYER_SEED"),
        (("manage.py", "migrate", "--skip-checks"), "RELAYER_SEED"),
        (("manage.py", "relayers"), "RELAYER_SEED"),
        (("manage.py", "shell", "--skip-checks", "--command", "print('started')"), "SECRET_KEY"),
        (("manage.py", "rotate_keys", "evm-localnet"), "WEBHOOK_SECRETS_KEY"),
        (("manage.py", "deploy_escrow", "evm-localnet", "--owner", "0x" + "ab" * 20), "RELAYER_SEED"),
    ],
)
def test_a_process_without_a_key_that_it_needs_ends_at_once_names_it_and_changes_nothing(arguments, missing):
    before = count_of_rows()

    status, output = run(arguments, in_production(missing))

    assert status not in (0, None), output
    assert f"{missing} is not set" in output
    assert " ready" not in output
    assert "Traceback" not in output
    assert count_of_rows() == before


@pytest.mark.usefixtures("committed")
def test_the_web_server_without_a_key_ends_although_its_workers_are_respawned():
    (port,) = free_ports(1)
    status, output = run(("-m", *web_command(port, WEB_CONCURRENCY="1")), in_production("RELAYER_SEED"))
    assert status not in (0, None), output
    assert "RELAYER_SEED is not set." in output


def test_what_needs_no_configuration_goes_on_without_one():
    bare = {"PATH": os.environ["PATH"]}
    for arguments in (
        (),
        ("--help",),
        ("help", "shell"),
        ("migrate", "--help"),
        ("verify_receipt", "--help"),
        ("webhooks", "--help"),
    ):
        status, output = run(("manage.py", *arguments), bare)
        assert status == 0, output


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (("report",), {"CELERY_BROKER_READ_URL": "redis://other.example/0"}),
        (("report",), {"BROKER_URL": "redis://other.example/0"}),
        (("--broker", "redis://other.example/0", "report"), {}),
        (("--skip-checks", "report"), {}),
    ],
)
def test_celery_takes_its_broker_from_nowhere_else(arguments, variables):
    status, output = run((*_CELERY, *arguments), {**in_production(), **variables})
    assert status not in (0, None), output
    assert "must not be set: Celery's broker is REDIS_URL." in output
    assert "other.example" not in output


@pytest.mark.usefixtures("committed")
def test_celery_reports_its_own_settings_and_no_secret():
    environment = in_production()
    status, output = run((*_CELERY, "report"), environment)
    assert status == 0, output
    assert "task_queues" in output
    assert "broker_url: 'redis://:********@" in output
    assert not {"SECRET_KEY", "RELAYER_SEED", "DATABASES"} & {*re.findall(r"\w+", output)}
    password = urlsplit(environment["REDIS_URL"]).password
    assert password
    assert password not in output
    # What `inspect conf` tells of a worker.
    assert password not in json.dumps(celery.app.conf.table(with_defaults=True), default=repr)


# --- Each its own -----------------------------------------------------------------------------------------------------
_TELL = """
import json, sys
sys.argv = sys.argv[1:]
import allowance.celery
from django.conf import settings
settings.CHAINS  # they are read now
held = {name: bool(getattr(settings._wrapped, name)) for name in json.loads(sys.argv.pop())}
print(json.dumps(held | {"CHAINS": bool(settings.CHAINS), "problems": settings.CONFIGURATION_PROBLEMS}))
"""


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("kind", _TYPES)
def test_a_process_that_is_handed_every_key_reads_its_own_only(kind):
    secrets = [name for name in READERS if (name.isupper() and "_KEY" in name) or name == "RELAYER_SEED"]
    secrets = [name for name in secrets if os.environ.get(name) and READERS[name]]  # some are of commands alone

    status, output = run(("-c", _TELL, *_TYPES[kind][1:], json.dumps(secrets)), in_production())

    assert status == 0, output
    held = json.loads(output.splitlines()[-1])
    assert held.pop("problems") == []
    assert held.pop("CHAINS") is (kind is ProcessType.WORKER)
    assert {name for name, is_held in held.items() if is_held} == {name for name in secrets if kind in READERS[name]}


@pytest.mark.parametrize("kind", _TYPES)
def test_a_process_with_its_own_keys_only_misses_none(kind):
    others = [name for name in os.environ if not is_reader(frozenset({kind}), name)]

    status, output = run(("-c", _TELL, *_TYPES[kind][1:], "[]"), _without(others))

    assert status == 0, output
    assert json.loads(output.splitlines()[-1])["problems"] == []


@pytest.mark.usefixtures("committed")
def test_a_worker_that_serves_other_queues_than_its_command_line_says_ends():
    status, output = run(_BOTH, {**in_production(), "CELERY_WORKER_QUEUES": "webhooks"})
    assert status not in (0, None), output
    assert "Name the queues of this worker by --queues" in output


@pytest.mark.parametrize(
    ("arguments", "types"),
    [
        ("--app allowance worker --queues webhooks", {"webhooks"}),
        ("--app allowance worker --queues=webhooks", {"webhooks"}),
        ("--app allowance worker -Q webhooks", {"webhooks"}),
        ("--app allowance worker -Qcelery", {"worker"}),
        ("--app allowance worker -Q celery,webhooks", {"worker", "webhooks"}),
        ("--app allowance worker", {"worker", "webhooks"}),
        ("--app allowance worker -B", {"worker", "webhooks", "beat"}),
        ("--app allowance worker --queues something", {"worker", "webhooks"}),
        ("--app allowance beat --loglevel WARNING", {"beat"}),
        ("--app allowance inspect ping", {"beat"}),
    ],
)
def test_the_command_that_starts_a_process_says_what_it_is(arguments, types):
    assert types_of_celery(arguments.split()) == types


def _without(names):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EMBEDDED", "PYTEST_"))}
    return {name: value for name, value in kept.items() if name not in names}
