"""`make drawing`: draw the rooms of the code, and which imports which, into docs/architecture.md.

A room is a package. `payments` is large, so each package and module inside it is a room of its own. An arrow that
follows from others is left out.
"""

import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- Drawn by `make drawing`: do not edit. -->\n", "<!-- The drawing ends here. -->\n"
DIVIDED = ("payments",)

Rooms = dict[str, set[str]]
Arrows = dict[str, set[str]]
Imports = dict[str, set[str]]


def draw() -> str:
    """Draw the tree as a mermaid flowchart."""
    # The workshop stands on everything else.
    packages = tomllib.loads((ROOT / "workshop/pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
    graph = grimp.build_graph(*packages, cache_dir=None)
    modules = {name for name in graph.modules if not {"migrations", "tests"} & {*name.split(".")}}
    imports = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    room_of = _rooms_of(imports)
    arrows: Arrows = defaultdict(set)
    for importer, room in room_of.items():
        arrows[room] |= {room_of[name] for name in imports[importer]} - {room}
    rooms: Rooms = defaultdict(set)
    for module, room in room_of.items():
        rooms[room].add(module)
    return _as_mermaid(rooms, _without_shortcuts(arrows))


def put_into_page(page: str, drawing: str) -> str:
    """Put a drawing between the page's markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{drawing}\n{END}{rest.split(END)[1]}"


def _rooms_of(imports: Imports) -> dict[str, str]:
    """Name the room of each module. Modules that neither import nor are imported are in none."""
    wanted_by: Imports = defaultdict(set)
    for importer, imported in imports.items():
        for name in imported:
            wanted_by[name].add(importer)
    rooms = {}
    for name in imports:
        top, *inner = name.split(".")
        rooms[name] = f"{top}.{inner[0]}" if inner and top in DIVIDED else top
    return {name: room for name, room in rooms.items() if imports[name] or wanted_by[name]}


def _without_shortcuts(arrows: Arrows) -> Arrows:
    """Leave out each arrow that can be walked in several steps."""
    reached = {room: _reach(room, arrows) for room in [*arrows]}
    return {
        room: {to for to in targets if not any(to in reached.get(by, ()) for by in targets - {to} if by != room)}
        for room, targets in arrows.items()
    }


def _reach(start: str, arrows: Arrows) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for room in arrows.get(waiting.pop(), set()) - found:
            found.add(room)
            waiting.append(room)
    return found


def _as_mermaid(rooms: Rooms, arrows: Arrows) -> str:
    lines = ["```mermaid", "flowchart TD"]
    for package in sorted({room.split(".")[0] for room in rooms}):
        inner = sorted(room for room in rooms if re.match(rf"{package}\b", room))
        if inner == [package]:
            lines.append(f'    {_id(package)}["{package}/"]')
            continue
        lines += [f'    subgraph {package}_rooms["{package}/"]']
        lines += [f'        {_id(room)}["{_label(room, rooms[room])}"]' for room in inner]
        lines += ["    end"]
    lines += [f"    {_id(room)} --> {_id(to)}" for room in sorted(arrows) for to in sorted(arrows[room])]
    return "\n".join([*lines, "```"])


def _label(room: str, modules: set[str]) -> str:
    return room.rpartition(".")[2] + (".py" if modules == {room} and not _is_package(room) else "/")


def _is_package(room: str) -> bool:
    return (ROOT / room.replace(".", "/")).is_dir()


def _id(room: str) -> str:
    return re.sub(r"\W+", "_", room)


if __name__ == "__main__":
    PAGE.write_text(put_into_page(PAGE.read_text(), draw()))
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}: drawn\n")
