"""The product's processes, as the Procfile names them: several of each, killed and started again one by one."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import requests

from foundation.environment.procfile import web_command
from tests.crash.installation import wait_until
from tests.crash.proxy import Proxy
from workshop.localnet.folder import ROOT

WEBS, WORKERS, WEBHOOKS, BEAT = ("web-1", "web-2"), ("worker-1", "worker-2"), "webhooks", "beat"
_WORKER = ("worker", "--loglevel", "WARNING", "--concurrency", "2", "--without-gossip", "--without-mingle")
_BEAT = ("beat", "--loglevel", "WARNING")


@dataclass(slots=True)
class Processes:
    """All processes of one run. Each knows the nodes by addresses of its own, and its name in the database.

    `proxies` are those of a chain, by what the names of its variables begin with.
    """

    logs: Path
    ports: Mapping[str, int]
    proxies: Mapping[str, Sequence[Proxy]]
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    ended: Counter[str] = field(default_factory=Counter)

    @classmethod
    def start_all(cls, logs: Path, ports: Mapping[str, int], proxies: Mapping[str, Sequence[Proxy]]) -> "Processes":
        logs.mkdir()
        processes = cls(logs, ports, proxies)
        for name in (*WEBS, *WORKERS, WEBHOOKS, BEAT):
            processes.start(name)
        return processes

    def start(self, name: str) -> None:
        """Start a process that does not run; it is ready when it is ready."""
        # It ends with this process, however that ends.
        command = [sys.executable, "-m", "workshop.demo.child", *self._command(name)]
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(name),
                cwd=ROOT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a process and its children with -9."""
        process = self.running.pop(name)
        # What it started is killed even if it has ended itself.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin:
            process.stdin.close()

    def revive(self) -> None:
        """Start again what ended by itself, as every platform does; `ended` counts it."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.ended[f"{name} ended by itself with status {process.returncode}"] += 1
                self.kill(name)
                self.start(name)

    def signal(self, names: Sequence[str], number: signal.Signals) -> None:
        """Send a signal to processes and their children."""
        self.revive()
        for name in names:
            os.killpg(self.running[name].pid, number)

    def stop_all(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def url(self, web: str) -> str:
        return f"http://127.0.0.1:{self.ports[web]}"

    def wait_for_webs(self) -> None:
        """Wait until every web server that runs answers."""
        for web in WEBS:
            wait_until(partial(self._is_alive, web), f"{web} answers")

    def _is_alive(self, web: str) -> bool:
        self.revive()
        try:
            return requests.get(f"{self.url(web)}/healthz", timeout=2).ok
        except requests.RequestException:
            return False

    def _command(self, name: str) -> Sequence[str]:
        if name in WEBS:
            return (*web_command(self.ports[name], WEB_CONCURRENCY="1"), "--log-level", "warning")
        if name == BEAT:
            return ("celery", "--app", "allowance", *_BEAT)
        return ("celery", "--app", "allowance", *_WORKER, "--queues", "webhooks" if name == WEBHOOKS else "celery")

    def _environment(self, name: str) -> dict[str, str]:
        """Configure it as a deployment is: by explicit settings, nothing embedded.

        But what delivers webhooks does so to this machine, which is for development.
        """
        is_development = str(name == WEBHOOKS).lower()
        return {
            **os.environ,
            "RATE_LIMIT_PER_MINUTE": "60000",
            "EMBEDDED": is_development,
            "WEBHOOKS_ALLOW_PRIVATE": is_development,
            "EMBEDDED_DIR": str(self.logs / "none"),  # so that it leaves the servers of this run alone
            "HTTPS": "false",
            "ALLOWED_HOSTS": "127.0.0.1",
            "PGAPPNAME": name,
            **{f"{chain}_RPC_URLS": ",".join(one.url(name) for one in its) for chain, its in self.proxies.items()},
        }
