"""Run processes as the image would, without a container engine: as its user, on a file system that nobody can write to.

What stands in the build's context is mounted where nothing else of the checkout is seen, in a mount namespace of each
process; then everything is read-only but /tmp. The commands, the health check and the working folder are the
Dockerfile's; the packages are this session's. `make image-drill` builds and runs the image itself.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import ways
from tests.documents.pages import ROOT

# A name of its own: heartbeats tell by it which container a process is in.
HOST = "container-of-tests"
_INSIDE = """
set -eu
hostname {host}
mount -t tmpfs none {root}
mkdir {root}/tmp
for one in {context}; do
    name={root}/${{one#{checkout}/}}
    mkdir -p "$(dirname "$name")"
    if [ -d "$one" ]; then mkdir "$name"; else touch "$name"; fi
    mount --bind "$one" "$name"
done
mount -t tmpfs -o mode=1777 none {root}/tmp
mount -o remount,bind,ro /
mount -o remount,bind,ro {root}
for one in {context}; do mount -o remount,bind,ro {root}/${{one#{checkout}/}}; done
cd {root}
exec setpriv --reuid {user} --regid {group} --clear-groups --no-new-privs {rights} -- "$@"
"""
# Where root alone can reach Python, in /root for example, a process may look everywhere. It may not write for that.
_NO_RIGHTS, _LOOKS = "--bounding-set=-all", "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"


class Image:
    """What the Dockerfile says of processes, and a place to run them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        said = dict(ways.dockerfile())
        self.entrypoint: list[str] = json.loads(said["ENTRYPOINT"])
        self.health_check: list[str] = json.loads(said["HEALTHCHECK"].partition(" CMD ")[2])
        self._user, self._group = said["USER"].split(":")
        set_at_build = re.findall(r"(\w+)=(\S+)", said["ENV"])
        test = ["setpriv", f"--reuid={self._user}", f"--regid={self._group}", "--clear-groups", "test", "-x"]
        is_reached = not subprocess.run([*test, Path(sys.executable).resolve()], check=False).returncode
        self._rights = _NO_RIGHTS if is_reached else _LOOKS
        self._variables = {name: value for name, value in set_at_build if name != "PATH"}

    def start(self, command: list[str], variables: Mapping[str, str], **options: Any) -> "subprocess.Popen[str]":
        """Start a command in a container of its own; what is started is this very process."""
        inside = _INSIDE.format(
            host=HOST,
            root=shlex.quote(str(self._root)),
            checkout=shlex.quote(str(ROOT)),
            context=" ".join(shlex.quote(str(path)) for path in ways.context()),
            user=self._user,
            group=self._group,
            rights=self._rights,
        )
        environment = {"PATH": f"{sys.exec_prefix}/bin:{os.environ['PATH']}", **self._variables, **variables}
        return subprocess.Popen(
            ["unshare", "--mount", "--uts", "--ipc", "sh", "-c", inside, "sh", *command],
            env={**environment, "TMPDIR": str(self._root / "tmp")}, stdin=subprocess.DEVNULL, text=True, **options,
        )  # fmt: skip

    def run(self, command: list[str], variables: Mapping[str, str]) -> tuple[int, str]:
        """Run a command; returns its status and what it said."""
        process = self.start(command, variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output


def insist_on_namespaces() -> None:
    """Skip where no namespaces of mounts can be had."""
    tried = ["unshare", "--mount", "--uts", "--ipc", "true"]
    can = shutil.which("unshare") and subprocess.run(tried, check=False, capture_output=True).returncode == 0
    if not can:
        pytest.skip("namespaces can be had by root alone")
