"""A request that came to the developers' receiver, and how it is written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from allowance_client.members import MalformedJson, read_object

ID = "webhook-id"
_SIGNED = (ID, "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, slots=True)
class Reception:
    """One request, and the `reason` to refuse it; None: it is genuine.

    `body` is None if it was not read; `is_again`: it is genuine, and so was an earlier one of its id.
    """

    status: HTTPStatus
    reason: str | None
    headers: Mapping[str, str]
    body: bytes | None = None
    is_again: bool = False

    @property
    def event(self) -> dict[str, Any] | None:
        """The body, if it is a JSON object in which each member is named once."""
        try:
            return None if self.body is None else read_object(self.body)
        except MalformedJson:
            return None

    @property
    def id(self) -> str | None:
        return self.headers.get(ID)

    @property
    def type(self) -> str | None:
        """Name the kind of event, if the body does."""
        named = (self.event or {}).get("type")
        return named if isinstance(named, str) else None


def as_json(reception: Reception, signatures: Sequence[str]) -> str:
    """Write it as one JSON object on one line; `signatures` are the kinds that fit."""
    return json.dumps(
        {
            "id": reception.id,
            "type": reception.type,
            "verified": reception.reason is None,
            "signatures": signatures,
            "reason": reception.reason,
            "again": reception.is_again,
            "body": reception.event,
            # Another verifier needs these to check the webhook, too.
            "headers": {name: reception.headers[name] for name in _SIGNED if name in reception.headers},
            "raw": None if reception.body is None else reception.body.decode(errors="replace"),
        }
    )


def as_text(reception: Reception, signatures: Sequence[str]) -> str:
    """Write it for people; `signatures` as above."""
    judged = f"REFUSED: {reception.reason}" if reception.reason else f"verified by {' and '.join(signatures)}"
    again = " (again)" if reception.is_again else ""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = f"{now}  {reception.type or '-'}  {reception.id or '-'}  {judged}{again}"
    body = json.dumps(reception.event, indent=2, ensure_ascii=False).splitlines() if reception.event else []
    return "\n".join(_plain(line) for line in [head, *(f"    {line}" for line in body)])


def _plain(line: str) -> str:
    """Replace characters that would control the terminal: anybody can send them."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
