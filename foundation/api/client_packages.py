"""The clients as an installation hands them out: a wheel and a tarball, made from `clients/` byte for byte the same.

Whoever has only the address of an installation gets from it what pays there. Nothing is compiled here: the JavaScript
in `clients/typescript/dist` is committed.
"""

import base64
import io
import json
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from gzip import GzipFile
from hashlib import sha256
from pathlib import Path

from foundation.kernel.version import VERSION

ADDRESS = "/v1/clients"
WHEEL = f"allowance_client-{VERSION}-py3-none-any.whl"
TARBALL = f"allowance-client-{VERSION}.tgz"
# How pages name the clients in a checkout, and what stands in its place where an installation shows them.
IN_A_CHECKOUT = {
    '"./clients/python[mcp]"': f'"allowance-client[mcp] @ $URL{ADDRESS}/{WHEEL}"',
    "./clients/python": f'"$URL{ADDRESS}/{WHEEL}"',
    "./clients/typescript": f'"$URL{ADDRESS}/{TARBALL}"',
}
_INFO = f"allowance_client-{VERSION}.dist-info"
# The oldest moment that a zip archive can name: what is in the archive is not dated.
_NO_DATE = (1980, 1, 1, 0, 0, 0)


def make_packages(folder: Path) -> Mapping[str, bytes]:
    """Make the archives of a folder (`clients/`), by their names; without the folder, there are none."""
    makers = {WHEEL: (folder / "python", _make_wheel), TARBALL: (folder / "typescript", _make_tarball)}
    return {name: make(source) for name, (source, make) in makers.items() if source.is_dir()}


def _make_wheel(folder: Path) -> bytes:
    """Make a wheel (PEP 427) of the packages in a folder."""
    contents = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for package in ("allowance_client", "allowance_mcp")
        for path in _files(folder / package)
    }
    contents[f"{_INFO}/METADATA"] = _metadata(folder).encode()
    contents[f"{_INFO}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: allowance\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{_INFO}/RECORD"] = f"{record}{_INFO}/RECORD,,\n".encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, _NO_DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            file.writestr(entry, data)
    return archive.getvalue()


def _metadata(folder: Path) -> str:
    """Write what the package says of itself (core metadata 2.4), from its pyproject.toml."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"License-Expression: {project['license']}"]
    lines += [f"Classifier: {one}" for one in project["classifiers"]]
    lines += [f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    for extra, needed in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {one}; extra == "{extra}"' for one in needed)]
    return "\n".join([*lines, "", (folder / project["readme"]).read_text("utf-8")])


def _make_tarball(folder: Path) -> bytes:
    """Make what `npm pack` makes: the manifest, and what it names under `files`."""
    manifest: Mapping[str, list[str]] = json.loads((folder / "package.json").read_text("utf-8"))
    packed = io.BytesIO()
    with (
        GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in ["package.json", *manifest["files"]]:
            for path in _files(folder / name):
                data = path.read_bytes()
                entry = tarfile.TarInfo(f"package/{path.relative_to(folder).as_posix()}")
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _files(path: Path) -> Iterator[Path]:
    """Go through the files below a path, by name; what Python has compiled and links are left out."""
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    yield from (one for one in found if one.is_file() and not one.is_symlink() and "__pycache__" not in one.parts)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
