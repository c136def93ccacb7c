"""Read what came back: an object that a 2xx carries, or the exception that the answer stands for."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from allowance_client import errors
from allowance_client.failures import AllowanceError, ClientError, NoAnswer, Refusal, Retry, UnexpectedAnswer
from allowance_client.members import MalformedJson, Members, read_object
from allowance_client.steps import Answer, Lost, Outcome

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_SAME_KEY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE}
_RETRIES: dict[str, Retry] = {"same_key": "same_key", "new_key": "new_key"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A 2xx and its JSON object."""

    raw: Mapping[str, Any]
    is_replay: bool


def read_outcome(outcome: Outcome, now: datetime, *, is_reading: bool = False) -> Reply | ClientError:
    """Tell a reply from a failure. A failure is returned, not raised: it may be worth another attempt.

    `is_reading`: the request changes nothing, so that nobody has to be told how to repeat it.
    """
    advice = "" if is_reading else " Nothing is known; the same idempotency key is safe."
    if not isinstance(outcome, Answer):
        reason = outcome.reason if isinstance(outcome, Lost) else "nothing was sent"
        return NoAnswer(f"No answer came: {reason}.{advice}")
    is_success = HTTPStatus.OK <= outcome.status < HTTPStatus.MULTIPLE_CHOICES
    try:
        raw = read_object(outcome.body)
        if is_success:
            return Reply(raw, is_replay=_is_replay(outcome))
        return make_error(read_refusal(outcome, Members(raw).object("error"), now))
    except MalformedJson as error:
        if is_success or outcome.status in _SAME_KEY or outcome.status > HTTPStatus.INTERNAL_SERVER_ERROR:
            return NoAnswer(f"An answer came that cannot be read ({outcome.status}: {error}){advice}")
        return UnexpectedAnswer(f"This is no answer of the API: {outcome.status}. Is the base URL right?")


def read_refusal(answer: Answer, error: Mapping[str, Any], now: datetime) -> Refusal:
    """Read the error body of an answer.

    Raises:
        MalformedJson: it is none of ours.
    """
    members = Members(error)
    return Refusal(
        code=members.text("code"),
        message=members.text("message"),
        status=answer.status,
        retry=_read_retry(answer.status, error),
        docs=members.optional_text("docs"),
        request_id=answer.headers.get("x-request-id"),
        rule=members.optional_text("rule"),
        log_id=members.optional_text("logId"),
        retry_after_s=read_retry_after(answer.headers.get("retry-after", ""), now),
        is_replay=_is_replay(answer),
        raw=error,
    )


def make_error(refusal: Refusal) -> AllowanceError:
    """Make the exception of a refusal's code; of a code that is not known, the base class."""
    return _CLASSES.get(refusal.code, AllowanceError)(refusal)


def read_retry_after(header: str, now: datetime) -> float | None:
    """Read `Retry-After` (RFC 9110, 10.2.3) as seconds from `now`; None: missing or malformed."""
    if _SECONDS.fullmatch(header.strip()):
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds())


def _read_retry(status: int, error: Mapping[str, Any]) -> Retry | None:
    """Read the member `retry`; servers before it say the same by the status, and by whether a rule decided."""
    if "retry" in error:
        return _RETRIES.get(str(error["retry"]))
    if status in _SAME_KEY:
        return "same_key"
    return "new_key" if error.get("rule") else None


def _is_replay(answer: Answer) -> bool:
    return answer.headers.get("idempotent-replayed", "").lower() == "true"


def _error_classes() -> Iterator[type[AllowanceError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, AllowanceError) and value is not AllowanceError:
            yield value


_CLASSES = {one.code: one for one in _error_classes()}
