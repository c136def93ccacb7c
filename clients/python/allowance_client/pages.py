"""Lists that are read page by page, by a cursor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from allowance_client.errors import UnexpectedAnswer
from allowance_client.exchanges import Patience
from allowance_client.members import MalformedJson, Members
from allowance_client.requests import get
from allowance_client.steps import Flow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next one; None: it is the last."""

    items: tuple[T, ...]
    next_cursor: str | None

    def is_last(self, cursor: str | None) -> bool:
        """Tell whether the list ends with this page, which was read at a cursor. No page leads to itself."""
        return self.next_cursor in {None, cursor}


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that is read page by page; a page is a flow."""

    patience: Patience
    path: str
    query: Mapping[str, str | None]
    read: Callable[[Mapping[str, Any]], T]

    def page(self, cursor: str | None) -> Flow[Page[T]]:
        """Read the page at a cursor; None: the first."""
        reply = yield from self.patience.exchange(get(self.path, {**self.query, "cursor": cursor}))
        return read_with(self._read_page, reply.raw)

    def _read_page(self, raw: Mapping[str, Any]) -> Page[T]:
        members = Members(raw)
        return Page(tuple(map(self.read, members.raw_objects("data"))), members.optional_text("nextCursor"))


def read_with(read: Callable[[Mapping[str, Any]], T], raw: Mapping[str, Any]) -> T:
    """Read an answer's object. Raises `UnexpectedAnswer`: it is not what it should be."""
    try:
        return read(raw)
    except MalformedJson as error:
        raise UnexpectedAnswer(f"The answer is not as the contract has it. {error}") from error
