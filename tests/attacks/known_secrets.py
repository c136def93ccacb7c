"""An installation of which every secret is known: its processes, and all that can be seen of them."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import redis
import requests
from psycopg import sql

from tests.attacks.search import Remains
from tests.support.collector import Collector
from tests.support.house import House
from tests.support.ports import free_ports
from workshop.localnet import postgres
from workshop.localnet.folder import ROOT
from workshop.tests.localnet.installation import Installation

PATIENCE_S = 120
_KEYS = {
    "POLICY_SIGNER_ED25519_KEY": 32,
    "POLICY_SIGNER_SECP256K1_KEY": 32,
    "POLICY_SIGNER_SOLANA_KEY": 32,
    "RELAYER_SEED": 64,
    "WEBHOOK_SIGNING_KEY": 32,
    "WEBHOOK_SIGNING_KEY_FALLBACKS": 32,
    "WEBHOOK_SECRETS_KEY": 32,
    "WEBHOOK_SECRETS_KEY_FALLBACKS": 32,
    "DEPLOYER_KEY": 32,
    "OLD_RELAYER_SEED": 64,
    "OLD_POLICY_SIGNER_SOLANA_KEY": 32,
}
_TEXTS = (
    "SECRET_KEY", "SECRET_KEY_FALLBACKS", "METRICS_TOKEN", "database password", "node key", "node password",
    "error key", "trace key",
)  # fmt: skip


class World:
    """Servers, processes and what was seen of them. `known` are the secrets, by name, as bytes or as the text's."""

    def __init__(self, folder: Path) -> None:
        self.seen = Remains()
        self.folder = folder
        # Without 0 at the beginning, so that a number is as long as its key.
        self.keys = {name: bytes([1]) + secrets.token_bytes(length - 1) for name, length in _KEYS.items()}
        self.texts = {name: f"known-{secrets.token_urlsafe(48)}" for name in _TEXTS}
        self.installation = Installation(folder / "installation")
        self.collector = Collector()
        self._urls: dict[str, str] = {}
        self.environment: dict[str, str] = {}
        self.house = House(folder / "logs", self.environment)

    @property
    def known(self) -> dict[str, bytes]:
        """All secrets; what the servers chose for themselves is among them."""
        of_redis = {"password of Redis": self.installation.folder.keys()["REDIS_PASSWORD"].encode()}
        return self.keys | {name: text.encode() for name, text in self.texts.items()} | of_redis

    def start_servers(self) -> None:
        """Start PostgreSQL, Redis and the chains, and give everybody the addresses with secrets in them."""
        own = {name: key.hex() for name, key in self.keys.items()}
        own |= {name: text for name, text in self.texts.items() if name.isupper()}
        _, provided = self.installation.use(**own)
        node = provided["CHAIN_EVM_LOCALNET_RPC_URLS"]
        away = f"http://user:{self.texts['node password']}@127.0.0.1:1/{self.texts['node key']}"
        nodes = [f"{node}/v1/{self.texts['node key']}", f"{node}/?apikey={self.texts['node key']}", away]
        self.environment |= {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            **provided,
            **own,
            "DATABASE_URL": provided["DATABASE_URL"].replace("@", f":{self.texts['database password']}@", 1),
            "CHAIN_EVM_LOCALNET_RPC_URLS": ",".join(nodes),
            "HTTPS": "false",
            "ALLOWED_HOSTS": "127.0.0.1",
            "LOG_FORMAT": "json",
            "ACCESS_LOG": "true",
            "SENTRY_DSN": f"http://{self.texts['error key']}@{self.collector.host}/1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{self.collector.host}",
            "OTEL_EXPORTER_OTLP_HEADERS": f"x-trace-key={self.texts['trace key']}",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }

    def in_development(self, **variables: str) -> dict[str, str]:
        """Configure a process as embedded, although it has the address of everything."""
        nothing = {"EMBEDDED_DIR": str(self.folder / "nothing"), "WEBHOOKS_ALLOW_PRIVATE": "true"}
        return {**self.environment, "EMBEDDED": "true", **nothing, **variables}

    def start_processes(self) -> None:
        """Start what the Procfile has; and a second web server, with DEBUG."""
        self.house.start("worker", WORKER_CONCURRENCY="1")
        self.house.start("webhooks", **self.in_development(WEBHOOK_CONCURRENCY="1"))
        self.house.start("beat", "--loglevel", "INFO")
        self.house.start("web", "--log-level", "debug", WEB_CONCURRENCY="1")
        self._urls["web"] = self.house.url("web")
        (port,) = free_ports(1)
        granian = ("granian", "--interface", "wsgi", "allowance.wsgi:application", "--workers", "1")
        at = ("--port", str(port), "--blocking-threads", "4", "--no-ws", "--log-level", "debug")
        self.house.run("debug", *granian, *at, **self.in_development(DEBUG="true", LOG_FORMAT="plain"))
        self._urls["debug"] = f"http://127.0.0.1:{port}"

    def run(self, *arguments: str, **variables: str) -> str:
        """Run Python to its end; what it printed, of a traceback too, has been seen. Returns it."""
        return self.run_all([(arguments, variables)])[0]

    def run_all(self, commands: list[tuple[tuple[str, ...], dict[str, str]]]) -> list[str]:
        """Run several at once."""
        started = [
            subprocess.Popen(
                [sys.executable, *arguments],
                env=self.in_development(**variables),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for arguments, variables in commands
        ]
        outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
        for (arguments, _), output in zip(commands, outputs, strict=True):
            self.seen.add("command", " ".join(arguments)[:80], output)
        return outputs

    def ask(self, web: str, method: str, path: str, session: requests.Session | None = None, **options: Any) -> Any:
        """Ask a web server; the whole answer has been seen."""
        answer = (session or requests).request(
            method, f"{self._urls[web]}{path}", timeout=60, allow_redirects=False, **options
        )
        kind = "page" if path.startswith("/console") else "answer"
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.seen.add(kind, f"{web} {method} {path}", head.encode() + b"\n\n" + answer.content)
        return answer

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(requests.RequestException):
                if condition():
                    return
            self.house.check()
            assert time.monotonic() < deadline, f"Waited in vain: {what}."
            time.sleep(0.2)

    def wait_until_ready(self, web: str) -> None:
        self.wait_for(lambda: self.ask(web, "GET", "/readyz").ok, f"{web} is ready")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        return self.installation.sql(statement)

    @property
    def redis(self) -> "redis.Redis":
        return self.installation.redis()

    def collect(self) -> None:
        """See what lies about: logs, rows and what Redis has."""
        for log in (self.folder / "logs").glob("*.log"):
            self.seen.add("log", log.stem, log.read_bytes())
        for kind, body in self.collector.bodies:
            self.seen.add(kind, "the collector", body)
        for name in ("postgres", "redis"):
            for path in (self.installation.folder.path / name).glob("*.log"):
                self.seen.add("log", f"{name}/{path.name}", path.read_bytes())
        with postgres.connect(self.installation.folder) as connection:
            self._collect_rows(connection)
        for key in self.redis.scan_iter():
            self.seen.add("redis", repr(key), key + b" " + (self.redis.dump(key) or b""))
        for path in (self.installation.folder.path / "redis").rglob("*.aof"):
            self.seen.add("redis", path.name, path.read_bytes())

    def _collect_rows(self, connection: "psycopg.Connection[Any]") -> None:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            rows = connection.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table))).fetchall()
            self.seen.add("row", table, "\n".join(row for (row,) in rows))

    def stop(self) -> None:
        self.house.stop()
        self.installation.stop()

    def log_of(self, name: str) -> str:
        return self.house.log_of(name).read_text(errors="replace")
