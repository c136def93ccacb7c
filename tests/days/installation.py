"""An installation to work in: every process of the Procfile on servers of its own, four eyes and second factors on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group, User

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from policy.key_operations import create_api_key
from services.operations import approve_service
from workshop.demo import ports, run, seed, signals
from workshop.demo.client import Api
from workshop.demo.customer import Deposit, deposit
from workshop.demo.people import seed_people
from workshop.demo.processes import Processes
from workshop.demo.screen import Screen
from workshop.localnet.folder import ROOT
from workshop.tests.demo.running import PATIENCE_S, processes_of, wait_for

PASSWORD = "correct horse battery staple"
EVE = "eve"
RESEARCH, BUYER, COMPUTE = "agent-research", "agent-buyer", "agent-compute"
WEATHER, GPU, INFERENCE = "weather-api", "gpu-hours", "inference-api"
GPU_ADDRESS = "0x7ab51a7e00000000000000000000000000000042"
_PAYEES = {
    WEATHER: ("evm-localnet:0x57ea7ae200000000000000000000000000000001", Asset.USDC),
    GPU: (f"evm-localnet:{GPU_ADDRESS}", Asset.USDC),
    INFERENCE: ("solana-localnet:3znAGhp6Tk4kmebhXnk9K3jaTMffu82PJfEG91AeRkq2", Asset.SOL),
}
_AGENTS = {RESEARCH: (Asset.USDC, "evm-localnet"), BUYER: (Asset.USDC, "evm-localnet"),
           COMPUTE: (Asset.SOL, "solana-localnet")}  # fmt: skip
# In the process that stays: what it imports needs Django.
_STAY = "import sys; from tests.days.installation import stay; stay(sys.stdin.readline().strip())"


@dataclass(frozen=True, slots=True)
class Installation:
    """Where it answers, and a key that may do everything."""

    url: str
    api_key: str


@contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Run an installation until the block ends; nothing of it outlives that."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    wanted = {"EMBEDDED": "true", "EMBEDDED_DIR": str(folder), "FOUR_EYES": "true", "TOTP_REQUIRED": "true"}
    ready, log = folder.with_name("ready.json"), folder.with_name("output")
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "-c", _STAY],
            env={**kept, **wanted}, cwd=ROOT, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True,
        )  # fmt: skip
    try:
        assert process.stdin
        print(ready, file=process.stdin, flush=True)
        wait_for(lambda: ready.exists() or process.poll() is not None, PATIENCE_S)
        assert process.poll() is None, log.read_text()
        yield Installation(**json.loads(ready.read_text()))
    finally:
        process.terminate()
        process.communicate()
        wait_for(lambda: not processes_of(folder), PATIENCE_S)


def stay(ready: str) -> None:
    """Start everything, make what every day begins with, write to a file how it is reached, and stay up."""
    signals.listen()
    folder = run.data_folder()
    seed.migrate()
    with ports.reserve(None) as reservation:
        port = reservation.getsockname()[1]
        processes = Processes(folder / "logs", run._environment(folder))
        with run._ending(Screen(sys.stdout), processes):
            run._start(processes, port)
            found = _furnish(f"http://{ports.HOST}:{port}", processes)
            path = Path(ready)
            path.with_suffix(".part").write_text(json.dumps(found))
            path.with_suffix(".part").rename(path)
            run._stay(processes)


def _furnish(url: str, processes: Processes) -> dict[str, Any]:
    """Make agents with money, payees and the people; everything else is done in the console."""
    seed.prepare()
    for agent, (asset, chain) in _AGENTS.items():
        seed.make_agent(agent, asset, "10", "50", "200")
        deposit(Deposit(agent, "100", asset, chain))
    seed_people(PASSWORD)
    _hire_second_administrator()
    _, key = create_api_key(name=f"day of {utc_now():%Y-%m-%d}", by=seed.STAFF)
    api = Api(url, key)
    run._wait_until_ready(api, processes)
    for payee, (recipient, asset) in _PAYEES.items():
        answer = api.post("/v1/services", {"id": payee, "name": payee, "recipient": recipient, "asset": asset})
        answer.raise_for_status()
        approve_service(payee, by=seed.STAFF)
    return {"url": url, "api_key": key}


def _hire_second_administrator() -> None:
    """Make the one whom the demo has not: it takes two to make an account."""
    eve = User(username=EVE, is_staff=True)
    eve.set_password(PASSWORD)
    eve.save()
    eve.groups.add(Group.objects.get(name="Administrator"))
