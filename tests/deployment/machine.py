"""`python -m tests.deployment.machine PAGE FOLDER`: follow a page on a bare Debian machine, word for word.

It is started in namespaces of its own (mounts, network, processes), as root. What the page writes to /etc, /opt and
/var, whom it adds, and what it starts, ends with it. The network is the machine alone, with a chain. Of the programs
that a page calls, those of stand_ins.py take the place of what such a machine cannot have. FOLDER has the repository
that is cloned. Prints one JSON object.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import django
from eth_account import Account

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from tests.chains.adapter.anvil_node import EACH_SECOND, running_anvil
from tests.deployment.chain import provide, read_units
from tests.deployment.stand_ins import NAMES, PACKAGES, PYTHON
from tests.documents.pages import ROOT, blocks_of

CHAIN = "base-sepolia"
# Each shell, those that the page opens too, stops where a command fails, and says where it was.
_STRICT = 'set -Eeuo pipefail; trap \'echo "status $?: $BASH_COMMAND" >&2\' ERR; PS4="+ "; set -x\n'
_STRICT_FILE = Path("/etc/strict-of-tests")
_KEPT = ("etc", "opt", "var")
_EMPTY = ("/run", "/etc/postgresql", "/var/lib/postgresql", "/var/lib/redis")
_PATIENCE_S = 900


def main(page: str, folder: str) -> None:
    """Follow the page; prints how it ended, what it said, and how much the payee has."""
    make_machine(Path(folder))
    known = find_chain(CHAIN)
    assert known
    ours, payee = Account.create(), Account.create().address
    with running_anvil((*EACH_SECOND, "--chain-id", str(known.chain_id))) as url:
        provide(url, known.tokens, ours.address)
        values = {
            "SOURCE": f"{folder}/source",
            "HOST": "pay.example.com",
            "CHAIN": CHAIN,
            "NODES": url,
            "DEPLOYER_KEY": ours.key.to_0x_hex(),
            "OWNER": ours.address,
            "PAYEE": payee,
        }
        done = subprocess.run(
            ["bash"], input=script_of(page, values), env=_environment(Path(folder)), cwd="/", text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        units = read_units(url, known.tokens[Asset.USDC], payee)
    logs = "".join(f"--- {log.name}\n{log.read_text()[-3000:]}\n" for log in Path("/run/units").glob("*.log"))
    print(json.dumps({"status": done.returncode, "said": done.stdout, "logs": logs, "paid": units}))  # noqa: T201


def script_of(page: str, values: dict[str, str]) -> str:
    """Join the page's blocks, with the operator's values in the first one, which names each of them."""
    first, *others = [block.text for block in blocks_of(page) if block.language == "bash"]
    filled = re.sub(r"(?m)^export (\w+)=\S+", lambda found: f"export {found[1]}={values.pop(found[1])}", first)
    assert not values, f"{page} asks for no {[*values]}"
    return "\n".join([filled, *others])


def make_machine(folder: Path) -> None:
    """Put disks of its own over those of the machine beneath, and connect it with itself alone."""
    disk = folder / "disk"
    disk.mkdir()
    _mount("-t", "tmpfs", "none", disk)
    for name in _KEPT:
        upper, work = disk / name, disk / f"{name}.work"
        upper.mkdir()
        work.mkdir()
        _mount("-t", "overlay", "none", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", f"/{name}")
    for path in _EMPTY:
        _mount("-t", "tmpfs", "-o", "mode=755", "none", path)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for source, target in ((Path(django.__file__).parent.parent, PACKAGES), (sys.base_prefix, PYTHON)):
        target.mkdir()
        _mount("--bind", source, target)
    # Where a shared library of this Python lies, if it has one.
    Path("/etc/ld.so.conf.d/00-python-of-tests.conf").write_text(f"{PYTHON}/lib\n")
    subprocess.run(["ldconfig"], check=True)
    programs = folder / "programs"
    programs.mkdir()
    for name in NAMES:
        program = programs / name
        program.write_text(
            f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {sys.executable} -m tests.deployment.stand_ins {name} "$@"\n'
        )
        program.chmod(0o755)
    _STRICT_FILE.write_text(_STRICT)


def _environment(folder: Path) -> dict[str, str]:
    """Give the operator's shell what a login has."""
    path = f"{folder}/programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "USER": "root", "BASH_ENV": str(_STRICT_FILE)}


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[1:])
