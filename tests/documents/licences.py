"""`python -m tests.documents.licences`: say under which licence each package is that a server installs.

A package's own metadata say it: `License-Expression`, else `License`, else its classifiers. Where they are silent, or
where the package is not installed here, it is said below with its source.
"""

import re
import sys
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from typing import cast

from tests.documents.pages import text_of

# Of these a project under Apache-2.0 may depend on anything: they ask for notices at most.
PERMISSIVE = {
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CNRI-Python", "MIT", "MIT-0", "PSF-2.0", "public domain",
}  # fmt: skip
# These ask for more, and docs/decisions/licence.md says why that is met.
WEAK_COPYLEFT = {"LGPL-3.0-only", "MPL-2.0"}

# How metadata that are older than SPDX expressions say it.
_SPELLINGS = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 3-Clause OR Apache-2.0": "BSD-3-Clause OR Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "BSD, Public Domain": "BSD-2-Clause AND public domain",
    "Dual License": "BSD-3-Clause OR Apache-2.0",
    "MIT License": "MIT",
    "New BSD": "BSD-3-Clause",
    "The MIT License (MIT)": "MIT",
}
# What no metadata say, or what is installed on other machines only.
STATED = {
    "async-timeout": "Apache-2.0",  # Python before 3.11.3 only; the metadata of its wheel
    "colorama": "BSD-3-Clause",  # Windows only; the metadata of its wheel
    "fido2": "BSD-2-Clause AND Apache-2.0 AND MPL-2.0",  # its COPYING files; its metadata hold a whole text
    "httpx2-jsfetch": "BSD-3-Clause",  # in a browser (Emscripten) only; the metadata of its wheel
    "jsonalias": "MIT",  # the pyproject.toml of its repository
    "pywin32": "PSF-2.0",  # Windows only; the metadata of its wheel
    "solders": "Apache-2.0",  # the LICENSE in its wheel
}


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    licence: str

    @property
    def terms(self) -> set[str]:
        return set(re.split(r" AND | OR ", self.licence))


def read_packages() -> list[Package]:
    """Read what requirements.txt pins, each with its licence; "" where nothing says it."""
    pins = re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", text_of("requirements.txt"), re.MULTILINE)
    return [Package(name, version, STATED.get(name) or _licence_of(name)) for name, version in pins]


def _licence_of(name: str) -> str:
    try:
        about = cast("Message", metadata.metadata(name))
    except metadata.PackageNotFoundError:
        return ""
    if "License-Expression" in about:
        return about["License-Expression"]
    licence = about["License"].partition("\n")[0] if "License" in about else ""
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License")
    ]
    said = licence or " OR ".join(_SPELLINGS.get(one, one) for one in classifiers)
    return _SPELLINGS.get(said, said)


if __name__ == "__main__":
    for package in read_packages():
        sys.stdout.write(f"{package.name:28} {package.version:14} {package.licence or '?'}\n")
