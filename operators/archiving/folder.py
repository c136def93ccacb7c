"""The folder of an archive: files of gzip with one JSON object per line, and a manifest that says which are complete.

A file is written under another name, reaches the disk, is entered in the manifest and gets its name, in this order.
Only then are its rows removed, and the manifest says so. So after a crash at any moment a row is in the database, or in
a file that the manifest knows, and the next run goes on from there.
"""

import fcntl
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from foundation.kernel.errors import OperationRefused

_MANIFEST = "manifest.jsonl"
_PART = ".part"


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A complete file: `before` is the moment (ISO 8601) that its rows were old by, `sha256` of the file as it is."""

    file: str
    kind: str
    month: str
    rows: int
    first: str
    last: str
    before: str
    sha256: str


@contextmanager
def open_folder(path: Path) -> Iterator["Folder"]:
    """Open a folder for one run at a time; it is made if it does not exist.

    Raises:
        OperationRefused: another run writes there, or somebody else may.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        # What its manifest names is removed from the database: who writes there chooses what.
        raise OperationRefused(f"{path} is not yours alone: chmod 700 {path}, or take another folder.")
    with open(path / _MANIFEST, "a", opener=_private) as manifest:
        try:
            fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationRefused(f"Another run writes to {path}.") from None
        if (text := (path / _MANIFEST).read_text()) and not text.endswith("\n"):
            manifest.write("\n")  # a run ended while it wrote its line
        yield Folder(path, manifest)


class Folder:
    """An open folder."""

    def __init__(self, path: Path, manifest: IO[str]) -> None:
        self._path, self._manifest = path, manifest

    def write(self, name: str, kind: str, month: str, before: str, rows: Iterable[tuple[str, str]]) -> ArchivedFile:
        """Write rows, each its key and itself as JSON, into a new file; there is at least one."""
        part = self._path / f"{name}{_PART}"
        first, last, count = "", "", 0
        with open(part, "xb", opener=_private) as raw:
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                for last, row in rows:
                    packed.write(f'{{"key": {json.dumps(last)}, "row": {row}}}\n'.encode())
                    first, count = first or last, count + 1
            raw.flush()
            os.fsync(raw.fileno())
        written = ArchivedFile(name, kind, month, count, first, last, before, _digest(part))
        self._enter(asdict(written))
        self._finish(written)
        return written

    def find_unremoved(self) -> list[ArchivedFile]:
        """Find the files whose rows may still be in the database: a run ended before it had removed them."""
        lines = [json.loads(line) for line in (self._path / _MANIFEST).read_text().splitlines() if line.endswith("}")]
        removed = {line["removed"] for line in lines if "removed" in line}
        written = [ArchivedFile(**line) for line in lines if "sha256" in line]
        unremoved = [one for one in written if one.file not in removed and self._finish(one)]
        for part in self._path.glob(f"*.jsonl.gz{_PART}"):
            part.unlink()  # half written: its rows are in the database
        return unremoved

    def read_keys(self, written: ArchivedFile, at_once: int) -> Iterator[list[str]]:
        """Read a file's keys, some at once.

        Raises:
            OperationRefused: the file is not what was written.
        """
        path = self._path / written.file
        if _digest(path) != written.sha256:
            raise OperationRefused(f"{path} was changed since it was written: nothing is removed.")
        keys: list[str] = []
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                keys.append(json.loads(line)["key"])
                if len(keys) == at_once:
                    yield keys
                    keys = []
        yield keys

    def note_removed(self, written: ArchivedFile, rows: int) -> None:
        """Enter that the rows of a file were removed; `rows`: how many were still there."""
        self._enter({"removed": written.file, "rows": rows})

    def _finish(self, written: ArchivedFile) -> bool:
        """Give a file that the manifest knows its name; False: it is not here, so its rows are written anew."""
        path = self._path / written.file
        part = path.with_name(f"{path.name}{_PART}")
        if part.exists():
            part.rename(path)
            _sync(self._path)
        return path.exists()

    def _enter(self, line: dict[str, Any]) -> None:
        self._manifest.write(json.dumps(line) + "\n")
        self._manifest.flush()
        os.fsync(self._manifest.fileno())
        _sync(self._path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
