"""`python -m allowance_client listen`: a receiver of webhooks for developers; its options, and how it prints."""

import json
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from allowance_client.addresses import is_loopback
from allowance_client.errors import WebhookInvalid
from allowance_client.public_keys import Jwks, key_in_use
from allowance_client.receiver import HOST, Receiver
from allowance_client.receptions import Reception, as_json, as_text
from allowance_client.webhooks import read_secret, verify_webhook

_SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105 - a name
_KEYS_TIMEOUT_S = 10
_LAST_PORT = 65_535
_DESCRIPTION = f"""\
Listen on this machine, verify and print every webhook that arrives. For developers.
Genuine ones are answered with 204, others with 401 and the reason, anything else with 400 or 413.
Everything that can be checked must fit: v1 if there is a secret, v1a if there are keys, and the service
or the agent.

The whole way, on one machine:
  1. Start an installation that may send webhooks to this machine: make demo (it sets WEBHOOKS_ALLOW_PRIVATE=true).
     It prints its address, an API key, and how to run commands on its data: EMBEDDED=true ... manage.py ...
  2. Start this in another terminal, by the same Python, .venv/bin/python:
     python -m allowance_client listen --port 9000 --service my-shop \\
         --keys http://127.0.0.1:8000/.well-known/allowance-keys.json
     Without a secret only v1a is checked, by the public keys of the installation.
  3. Register a service with POST /v1/services and have it approved: manage.py approve_service my-shop
     {{"id": "my-shop", "name": "My shop", "recipient": "evm-localnet:0x...", "asset": "USDC",
      "webhookUrl": "http://{HOST}:9000/"}}
  4. Choose "Send test event" in the console, under "Webhook endpoints"; or pay the service.
  5. The secret for v1: "Show signing secret" in the same place. Start this again with it:
     {_SECRET_VARIABLE}=whsec_... python -m allowance_client listen --port 9000 --service my-shop
     In --secret, every user of this machine could read it.

The owner of an agent, who is told of payments that a person has to approve, gives --agent in place of --service, and
the secret that manage.py set_agent_webhook has printed.
"""


@dataclass(frozen=True, slots=True)
class _Verifier:
    """Checks webhooks for any of some receivers, services or agents, by all means that it has."""

    receivers: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]
    keys: Jwks | None

    @property
    def signatures(self) -> list[str]:
        """The kinds of signatures that a genuine webhook has."""
        return [kind for kind, means in (("v1", self.secrets), ("v1a", self.keys)) if means]

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise `WebhookInvalid` unless it is genuine, and for one of the receivers."""
        for receiver in self.receivers:
            try:
                verify_webhook(headers, body, **receiver, secret=self.secrets or None, keys=self.keys)
            except WebhookInvalid:
                if receiver is self.receivers[-1]:
                    raise
            else:
                return


def main() -> None:
    """Receive webhooks until Ctrl-C or SIGTERM.

    Raises:
        SystemExit: 2, after a sentence: an option means nothing; 1: the port is taken.
    """
    parser = ArgumentParser("python -m allowance_client")
    commands = parser.add_subparsers(required=True, metavar="listen")
    what = "verify, print and answer webhooks, for developers"
    command = commands.add_parser(
        "listen", help=what, description=_DESCRIPTION, formatter_class=RawDescriptionHelpFormatter
    )
    _add_arguments(command)
    options = parser.parse_args()
    try:
        secrets = options.secrets or os.environ.get(_SECRET_VARIABLE, "").split()
        list(map(read_secret, secrets))
        verifier = _Verifier(options.receivers, secrets, _read_keys(options.keys))
    except ValueError as error:
        command.error(str(error))
    if not verifier.signatures:
        command.error(f"give a secret in {_SECRET_VARIABLE}, the published keys in --keys, or both")
    try:
        receiver = Receiver(options.port, verifier.verify, partial(_show, verifier, is_json=options.json))
    except OSError as error:
        sys.exit(f"Cannot listen on port {options.port} of {HOST}: {error.strerror}.")
    _receive(receiver)


def _receive(receiver: Receiver) -> None:
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: Thread(target=receiver.stop, daemon=True).start())
    try:
        _print(f"listening on {receiver.url}")
        receiver.serve()
    finally:
        receiver.close()


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=_read_port, required=True, metavar="N", help="The port; 0: any that is free.")
    receiver = parser.add_mutually_exclusive_group(required=True)
    receiver.add_argument(
        "--service", action="append", dest="receivers", metavar="ID", type=lambda named: {"service": named},
        help="The service that receives: an event of any other is refused, though its v1a fits, because an "
        "installation signs for all of its services with one key. Given more than once: one of them.",
    )  # fmt: skip
    receiver.add_argument(
        "--agent", action="append", dest="receivers", metavar="ID", type=lambda named: {"agent": named},
        help="The agent whose owner receives, by its secret: an event of any other is refused. More than once: any.",
    )  # fmt: skip
    parser.add_argument(
        "--secret", action="append", dest="secrets", metavar="whsec_...",
        help="Check v1 by this secret; given more than once: one of them must fit. By default what "
        f"{_SECRET_VARIABLE} in the environment holds, separated by spaces.",
    )  # fmt: skip
    parser.add_argument(
        "--keys", metavar="URL|FILE",
        help="Check v1a by the key in use of this JWKS: an installation's /.well-known/allowance-keys.json.",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="Print each request as one JSON object on one line.")


def _show(verifier: _Verifier, reception: Reception, *, is_json: bool) -> None:
    signatures = [] if reception.reason else verifier.signatures
    _print(as_json(reception, signatures) if is_json else as_text(reception, signatures))


def _print(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(128 + signal.SIGPIPE)  # nobody reads it any more


def _read_port(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_PORT)) and int(text) <= _LAST_PORT:
        return int(text)
    raise ArgumentTypeError(f"invalid value: {text!r} is not a port, 0 to {_LAST_PORT}")


def _read_keys(source: str | None) -> Any:
    """Read the published keys; None: there is no source. Raises `ValueError`."""
    if source is None:
        return None
    try:
        keys = json.loads(_fetch(source))
        in_use = key_in_use(keys)
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise ValueError(f"{source} cannot be read as a JWKS. {error}") from error
    if in_use is None:
        raise ValueError(f"{source} cannot be read as a JWKS with an Ed25519 key.")
    return keys


def _fetch(source: str) -> bytes:
    if not source.startswith(("http://", "https://")):
        return Path(source).read_bytes()
    # A proxy in the environment is not meant for this machine.
    trust_env = not is_loopback(httpx.URL(source).host)
    return httpx.get(source, timeout=_KEYS_TIMEOUT_S, trust_env=trust_env).raise_for_status().content


if __name__ == "__main__":
    main()
