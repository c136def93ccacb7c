"""What a notice says. Pure.

It leaves the house, and whoever reads it may be deceived: so addresses are shortened, which nobody can pay to then, and
names that others chose are not made into links by a mail program.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SUBJECT_LENGTH = 120
_MOST_LINES = 50
# Addresses, hashes and keys: hex, or base58 of as many letters.
_LONG = re.compile(r"\b(0x[0-9a-fA-F]{4}|[1-9A-HJ-NP-Za-km-z]{6})[0-9A-Za-z]{22,}([0-9A-Za-z]{4})\b", re.ASCII)
_DOT_OF_A_NAME = re.compile(r"(?<=[A-Za-z0-9_-])\.(?=[A-Za-z]{2})", re.ASCII)
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to tell: its occasion in words, a sentence, and the address of a page, "" if that is not known.

    `advice`: sentences of this house about what it means and what to do.
    """

    occasion: str
    sentence: str
    link: str
    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.occasion}: {self.sentence}"


def harmless(text: str) -> str:
    """Shorten addresses and break up names that look like links."""
    return _DOT_OF_A_NAME.sub("[.]", _LONG.sub(r"\1…\2", " ".join(text.split()))).replace("://", "[:]//")


def subject_of(lines: Sequence[Line]) -> str:
    """Write the subject of an e-mail."""
    said = harmless(str(lines[0])) if len(lines) == 1 else f"{len(lines)} notices"
    return f"[Allowance] {said if len(said) <= _SUBJECT_LENGTH else said[: _SUBJECT_LENGTH - 1] + '…'}"


def mail_of(lines: Sequence[Line], role: str) -> str:
    """Write the text of an e-mail."""
    told = ["\n".join(filter(None, [said, line.link])) for line, said in _said(lines)]
    why = f"You are told because you have the role {role}. Allowance never asks for a password or a key by e-mail."
    return "\n\n".join([*told, *_rest(lines), f"-- \n{why}", ""])


def chat_of(lines: Sequence[Line]) -> str:
    """Write a text in the form of Slack's incoming webhooks."""
    told = [f"{said.translate(_ESCAPES)}{_chat_link(line.link)}" for line, said in _said(lines)]
    return "\n".join([*told, *_rest(lines)])


def _said(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Write each line, with its advice where that was not given above."""
    given = set()
    for line in lines[:_MOST_LINES]:
        advice = () if line.advice in given else line.advice
        given.add(line.advice)
        yield line, "\n".join([harmless(str(line)), *advice])


def _chat_link(link: str) -> str:
    return f" <{link.translate(_ESCAPES)}|Open the console>" if link else ""


def _rest(lines: Sequence[Line]) -> list[str]:
    more = len(lines) - _MOST_LINES
    return [f"And {more} more: see the alarms in the console."] if more > 0 else []
