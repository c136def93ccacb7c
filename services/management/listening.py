"""`manage.py webhooks listen`: its options, and how it prints requests."""

import json
import os
import signal
from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.core.management.base import CommandError, CommandParser, OutputWrapper

from foundation.kernel.times import format_instant, utc_now
from policy.signer import published_keys
from services.webhooks.receiver import HOST, Receiver, Reception
from services.webhooks.verifying import Verifier, key_in_use, read_secret

SECRET_VARIABLE = "WEBHOOK_SECRET"  # noqa: S105 - a name
HELP = "Listen on this machine; verify, print and answer every webhook that arrives. For developers."
_KEYS_TIMEOUT_S = 10
_LAST_PORT = 65_535
DESCRIPTION = f"""\
Listen on this machine, verify and print every webhook that arrives. For developers: no part of an installation.
Genuine ones are answered with 204, others with 401 and the reason, anything else with 400 or 413.
Everything that can be checked must fit: v1 if there is a secret, v1a if there is a key, and the service.

The whole way, on one machine:
  1. Start an installation that may send webhooks to this machine: make demo (it sets WEBHOOKS_ALLOW_PRIVATE=true).
     It prints an API key, the console's address and how to run commands on its data: EMBEDDED=true ... manage.py ...
  2. Start this in another terminal: manage.py webhooks listen --port 9000 --service my-shop
     Without a secret only v1a is checked, by the public key of the installation.
  3. Register a service with POST /v1/services and have it approved: manage.py approve_service my-shop
     {{"id": "my-shop", "name": "My shop", "recipient": "evm-localnet:0x...", "asset": "USDC",
      "webhookUrl": "http://{HOST}:9000/"}}
  4. Choose "Send test event" in the console, under "Webhook endpoints"; or pay the service.
  5. The secret for v1: "Show signing secret" in the same place. Start this again with it:
     {SECRET_VARIABLE}=whsec_... manage.py webhooks listen --port 9000 --service my-shop
     In --secret, every user of this machine could read it.
"""


def add_arguments(parser: CommandParser) -> None:
    """Declare the options of `listen`."""
    parser.add_argument("--port", type=_read_port, required=True, metavar="N", help="The port; 0: any that is free.")
    parser.add_argument(
        "--service", action="append", dest="services", metavar="ID",
        help="The service that receives: an event of any other is refused, though its v1a fits, because an "
        "installation signs for all of its services with one key. Given more than once: one of them. It may be left "
        "out where there is a secret, which is one service's alone.",
    )  # fmt: skip
    parser.add_argument(
        "--secret", action="append", dest="secrets", metavar="whsec_...",
        help="Check v1 by this secret; given more than once: one of them must fit. By default what "
        f"{SECRET_VARIABLE} in the environment holds, separated by spaces.",
    )  # fmt: skip
    parser.add_argument(
        "--keys", metavar="URL|FILE",
        help="Check v1a by the key in use of this JWKS: what /.well-known/allowance-keys.json of an installation "
        "answers. By default the keys of the installation that is configured here.",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="Print each request as one JSON object on one line.")


def listen(options: dict[str, Any], out: OutputWrapper) -> None:
    """Receive webhooks until Ctrl-C or SIGTERM.

    Raises:
        CommandError: an option means nothing, or the port is taken.
    """
    texts = options["secrets"] or os.environ.get(SECRET_VARIABLE, "").split()
    secrets = [_read_secret(text) for text in texts]
    if not options["services"] and not secrets:
        raise CommandError("Say by --service whose events these are: v1a, which fits those of all services, does not.")
    verifier = Verifier(options["services"], secrets=secrets, key=_read_key(options["keys"]))
    show = partial(_print, out, _as_json if options["json"] else _as_text)
    try:
        receiver = Receiver(options["port"], verifier, show)
    except OSError as error:
        raise CommandError(f"Cannot listen on port {options['port']} of {HOST}: {error.strerror}.") from error
    # As manage.py has it, they would raise wherever this process is: in the middle of a line, which is then said again.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: Thread(target=receiver.stop, daemon=True).start())
    try:
        out.write(f"listening on {receiver.url}")
        out.flush()
        receiver.serve()
    finally:
        receiver.close()


def _print(out: OutputWrapper, form: Callable[[Reception], str], reception: Reception) -> None:
    out.write(form(reception))
    out.flush()


def _as_json(reception: Reception) -> str:
    return json.dumps(
        {
            "id": reception.id,
            "type": reception.type,
            "verified": reception.verdict.reason is None,
            "signatures": reception.verdict.signatures,
            "reason": reception.verdict.reason,
            "again": reception.is_again,
            "body": reception.event,
            # Another verifier needs these to check the webhook, too.
            "headers": reception.headers,
            "raw": None if reception.body is None else reception.body.decode(errors="replace"),
        }
    )


def _as_text(reception: Reception) -> str:
    fitting = " and ".join(reception.verdict.signatures)
    judged = f"verified by {fitting}" if reception.verdict.reason is None else f"REFUSED: {reception.verdict.reason}"
    again = " (again)" if reception.is_again else ""
    head = f"{format_instant(utc_now())}  {reception.type or '-'}  {reception.id or '-'}  {judged}{again}"
    body = json.dumps(reception.event, indent=2, ensure_ascii=False).splitlines() if reception.event else []
    return "\n".join(_plain(line) for line in [head, *(f"    {line}" for line in body)])


def _plain(line: str) -> str:
    """Replace characters that would control the terminal: anybody can send them."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def _read_port(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_PORT)) and int(text) <= _LAST_PORT:
        return int(text)
    raise ArgumentTypeError(f"invalid value: {text!r} is not a port, 0 to {_LAST_PORT}")


def _read_secret(text: str) -> bytes:
    try:
        return read_secret(text)
    except ValueError as error:
        raise CommandError("A secret is whsec_ and base64, as the console shows it.") from error


def _read_key(source: str | None) -> Ed25519PublicKey:
    try:
        return key_in_use(_read_keys(source))
    except (OSError, ValueError) as error:  # what `requests` raises is an OSError
        raise CommandError(f"{source} cannot be read as a JWKS with an Ed25519 key: {error}") from error


def _read_keys(source: str | None) -> Any:
    if source is None:
        return published_keys()
    if not source.startswith(("http://", "https://")):
        return json.loads(Path(source).read_bytes())
    with requests.Session() as session:
        # A proxy in the environment is not meant for this machine.
        session.trust_env = urlsplit(source).hostname not in ("127.0.0.1", "::1", "localhost")
        answer = session.get(source, timeout=_KEYS_TIMEOUT_S)
    answer.raise_for_status()
    return answer.json()
