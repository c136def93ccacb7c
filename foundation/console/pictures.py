"""What the console's pictures are made of: `console/picture.html` shows one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A figure or a name in a table, and where it leads; "": nowhere."""

    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Columns, as the console's script draws them; each leads to the link at its place. `color`: 1 to 6."""

    name: str
    title: str
    labels: Sequence[str]
    data: Sequence[float]
    links: Sequence[str]
    color: int = 1

    @property
    def drawn(self) -> dict[str, Any]:
        return {"labels": self.labels, "data": self.data, "links": self.links, "color": self.color, "unit": self.title}


@dataclass(frozen=True, slots=True)
class Picture:
    """Charts, and the same figures as a table, whose first column is a name."""

    name: str
    title: str
    charts: Sequence[Chart]
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
