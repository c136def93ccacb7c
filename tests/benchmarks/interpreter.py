"""Where the interpreter's time goes: py-spy samples who holds the GIL in a web process under load."""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.benchmarks.figures import Figure
from tests.benchmarks.processor import web_processes
from tests.benchmarks.site import Site

_CONNECTIONS = 32
_RATE_PER_S = 250
_MOST_ROWS = 25
ROOT = str(Path(__file__).parents[2]) + "/"


def measure_interpreter(site: Site) -> dict[str, Figure]:
    """Sample one web process while all pay; returns per cent of its time by room of the code, and by function.

    A sample counts for the innermost frame that is in a room of ours or in a package; so what the standard library
    does counts for its caller.
    """
    program = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if program is None:
        raise RuntimeError("py-spy is not installed; `make bench` installs it.")
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        command = [
            program, "record", "--pid", str(web_processes(site.servers["web"])[0]), "--gil", "--nonblocking",
            "--duration", str(max(1, round(2 * site.seconds))), "--rate", str(_RATE_PER_S), "--format", "raw",
            "--full-filenames", "--output", file.name,
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as sampler:
            while sampler.poll() is None:
                site.drive(_CONNECTIONS)
            if sampler.returncode and sampler.stderr:
                raise RuntimeError(sampler.stderr.read())
        stacks = [line.rpartition(" ") for line in file.read().splitlines()]
    counted = [(stack.split(";"), int(count)) for stack, _, count in stacks]
    total = sum(count for _, count in counted)
    rooms: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for frames, count in counted:
        places = [place for frame in frames if (place := place_of(frame))]
        rooms[room_of(places)] += count
        functions.update(dict.fromkeys(filter(is_ours, places), count))
    return {"interpreter": {"samples": total, "rooms": _shares(rooms, total), "functions": _shares(functions, total)}}


def place_of(frame: str) -> str | None:
    """Name a frame of py-spy by its file and function, without the line; None: the interpreter's own library."""
    function, _, where = frame.partition(" (")
    path = where.rpartition(":")[0]
    if "site-packages/" in path:
        return f"{path.rpartition('site-packages/')[2]}:{function}"
    return f"{path.removeprefix(ROOT)}:{function}" if path.startswith(ROOT) else None


def room_of(places: Iterable[str]) -> str:
    """Name the room or the package of the innermost place."""
    innermost = next(reversed([*places]), "Python")
    folders = innermost.partition(":")[0].split("/")[:-1]
    return "/".join(folders[: 2 if is_ours(innermost) else 1]) or innermost.partition(":")[0]


def is_ours(place: str) -> bool:
    return (Path(ROOT) / place.partition(":")[0]).exists()


def _shares(counts: Counter[str], total: int) -> dict[str, float]:
    return {name: round(100 * count / total, 1) for name, count in counts.most_common(_MOST_ROWS)}
