"""Say how to reach what runs: on the terminal for people, as one JSON object in a file for programs."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from workshop.demo.finance_day import Link
from workshop.demo.payee import Payee
from workshop.demo.people import ROLES
from workshop.demo.screen import Screen
from workshop.demo.seed import CONSOLE_USER, RESEARCH
from workshop.demo.story import WEATHER


class AccessFileError(Exception):
    """Say in a sentence why the JSON file cannot be written."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Where a model finds its tools (MCP over HTTP), and the key that is bound to the agent it acts for."""

    url: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Access:
    """Addresses and credentials of a running demo. `folder` is the data folder, `payee` receives webhooks."""

    url: str
    password: str
    api_key: str
    tools: Tools
    folder: Path
    payee: Payee
    links: Sequence[Link]

    @property
    def manage(self) -> str:
        """The command line that runs manage.py against this installation, from any folder."""
        # As the demo's processes have them: else the doctor would call two of them troubles.
        variables = ["EMBEDDED=true", f"EMBEDDED_DIR={self.folder}", "WEBHOOKS_ALLOW_PRIVATE=true", "FOUR_EYES=true"]
        return shlex.join(["env", *variables, sys.executable, str(settings.BASE_DIR / "manage.py")])

    def as_json(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "console": {"url": f"{self.url}/console/", "username": CONSOLE_USER, "password": self.password},
            "staff": ROLES,
            "pages": [
                {"person": link.person, "url": f"{self.url}{link.path}", "shows": link.what} for link in self.links
            ],
            "apiKey": self.api_key,
            "mcp": {"url": self.tools.url, "agent": RESEARCH, "apiKey": self.tools.api_key},
            "manage": self.manage,
            "webhooks": {"service": self.payee.service, "url": self.payee.url, "log": str(self.payee.log)},
            "chains": {
                served.chain.alias: {
                    "rpcUrl": served.rpc_urls[0],
                    "escrow": served.escrow,
                    "tokens": {asset.value: address for asset, address in served.tokens.items()},
                }
                for served in settings.CHAINS.values()
            },
        }

    def show(self, screen: Screen) -> None:
        """Print it, with a request that is ready to be sent."""
        screen.heading("Everything is up")
        for name, text in (
            ("Console", f"{self.url}/console/  user {CONSOLE_USER}, password {self.password}"),
            ("API", f"{self.url}/v1/  documentation {self.url}/v1/docs"),
            ("API key", f"{self.api_key}  (all scopes; the next start replaces it)"),
            ("MCP", f"{self.tools.url}  (tools for models; send the key of {RESEARCH} as Bearer)"),
            ("Its key", f"{self.tools.api_key}  (bound to {RESEARCH}; the next start replaces it)"),
            ("Webhooks", f"{self.payee.log}  (the webhooks that {self.payee.service} receives)"),
            ("Commands", f"{self.manage} help"),
            ("Data, logs", f"{self.folder}, {self.folder / 'logs'}"),
            ("Stop", f"Ctrl-C, or kill {os.getpid()}; the data stay until make clean"),
        ):
            screen.line(f"  {name:<12}{text}")
        screen.heading("A day of finance: look at")
        for link in self.links:
            screen.line(f"  {link.person:<8}{self.url}{link.path}")
            screen.line(f"          {link.what}")
        roles = ", ".join(f"{name} ({role})" for name, role in ROLES.items())
        screen.line(f"  Sign in as {roles}: each with the password above.")
        self._show_payment(screen)

    def _show_payment(self, screen: Screen) -> None:
        body = {"agentId": RESEARCH, "service": WEATHER, "amount": "0.25", "asset": "USDC", "reason": "My first one"}
        screen.heading("A payment of your own")
        screen.line(f"curl {self.url}/v1/payments/request \\")
        screen.line(f"  -H 'Authorization: Bearer {self.api_key}' \\")
        screen.line("  -H 'Content-Type: application/json' -H \"Idempotency-Key: $(date +%s)\" \\")
        screen.line(f"  -d '{json.dumps(body)}'\n")


def clear(path: Path) -> None:
    """Remove what an earlier demo wrote: a program that waits for the file must not find the old one.

    Raises:
        AccessFileError: it is not a file, or its folder is not there to be written to.
    """
    if path.exists() and not path.is_file():
        raise AccessFileError(f"{path} is not a file.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise AccessFileError(f"{path.parent} is not a folder that can be written to.")
    path.unlink(missing_ok=True)


def write(path: Path, access: Access) -> None:
    """Write the file, for its owner alone, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(access.as_json(), file, indent=2)
        file.write("\n")
    draft.replace(path)
