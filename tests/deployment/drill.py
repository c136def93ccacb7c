"""`python -m tests.deployment.drill`: build the image, and run each process of compose.yaml from it, with real tools.

On a Debian machine, as root: apt-get install --no-install-recommends buildah podman runc debootstrap postgresql
redis-server. Where the base image cannot be fetched, Debian's own root with its Python takes its place. PostgreSQL and
Redis are Debian's, the chain is the embedded one; they are reached over this host's network.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.deployment.drill_servers import servers
from tests.deployment.ways import PROCESSES, compose, dockerfile
from tests.documents.pages import ROOT

_STAND_IN = "localhost/python-of-debian"
_IMAGE = "localhost/allowance-drill"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
# No registry of systemd's and no delegated cgroups are needed.
_PODMAN = ("podman", "--cgroup-manager=cgroupfs", "--runtime=runc")
# What a container of compose.yaml may not have on this host: networks of its own, limits of another kind.
_HERE = ("--network=host", "--ulimit=nofile=2048:2048", "--ulimit=nproc=1024:1024", "--no-healthcheck")
_PATIENCE_S = 120


def say(what: str) -> None:
    """Print a line of the drill."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)  # noqa: T201


def run(*command: str | Path, **options: object) -> str:
    """Run a command, and end the drill if it fails."""
    done = subprocess.run([*map(str, command)], check=False, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} … failed with {done.returncode}:\n{done.stdout[-4000:]}")
    return str(done.stdout)


def base_image(folder: Path) -> str:
    """Give the base that the Dockerfile names, or the stand-in."""
    (named,) = [
        value.partition("=")[2] for name, value in dockerfile() if name == "ARG" and value.startswith("PYTHON=")
    ]
    if not subprocess.run(
        ["buildah", "pull", "--quiet", named], check=False, capture_output=True, timeout=300
    ).returncode:
        return named
    say(f"{named} cannot be had here; making a stand-in of Debian's packages")
    root = folder / "root"
    run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", root, stderr=subprocess.STDOUT)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "copy", container, root, "/")
    run("buildah", "commit", "--quiet", "--rm", container, _STAND_IN)
    return _STAND_IN


def build(base: str) -> None:
    """Build as the Dockerfile says; authorities and indexes of this machine's pip are mounted while it does."""
    mounts = [
        f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/usr/share/ca-certificates", "/etc/pip.conf")
    ]
    mounts = [one for one in mounts if Path(one.split("=")[1].split(":")[0]).exists()]
    run(
        "buildah", "build", "--format=docker", "--isolation=chroot", "--pull-never", f"--build-arg=PYTHON={base}",
        *mounts, f"--tag={_IMAGE}", ROOT, stderr=subprocess.STDOUT,
    )  # fmt: skip
    say(f"built {_IMAGE} from {base}: {run('buildah', 'images', '--format={{.Size}}', _IMAGE).strip()}")


def options_of(name: str) -> list[str]:
    """Translate what compose.yaml says of a service into podman's options."""
    service = compose()["services"][name]
    limits = service["deploy"]["resources"]["limits"]
    return [
        *[f"--read-only={str(service['read_only']).lower()}", "--read-only-tmpfs=false"],
        *[f"--tmpfs={one}" for one in service["tmpfs"]],
        *[f"--cap-drop={one}" for one in service["cap_drop"]],
        *[f"--security-opt={one.removesuffix(':true')}" for one in service["security_opt"]],
        *[f"--memory={limits['memory']}", f"--pids-limit={limits['pids']}"],
    ]


@contextmanager
def container(name: str, folder: Path) -> Iterator[None]:
    """Run a service of compose.yaml until the block ends; it must end in time when it is asked to."""
    grace = compose()["services"][name]["stop_grace_period"].removesuffix("s")
    own = f"drill-{name}"
    command = [*_PODMAN, "run", "--detach", "--name", own, *_HERE, *options_of(name), f"--env-file={folder}/{name}.env"]
    run(*command, _IMAGE, *compose()["services"][name]["command"])
    try:
        yield
    finally:
        began = time.monotonic()
        run(*_PODMAN, "stop", "--time", grace, own, stderr=subprocess.DEVNULL)
        status = run(*_PODMAN, "inspect", "--format={{.State.ExitCode}}", own).strip()
        log = run(*_PODMAN, "logs", own, stderr=subprocess.STDOUT)
        run(*_PODMAN, "rm", "--force", own, stderr=subprocess.DEVNULL)
        say(f"{name:10} ended with {status} after {time.monotonic() - began:.1f} s")
        if status != "0" or "Read-only file system" in log:
            sys.exit(log)


def wait_until_healthy(name: str) -> None:
    """Ask as compose.yaml's health check does."""
    _, *test = compose()["services"][name]["healthcheck"]["test"]
    deadline = time.monotonic() + _PATIENCE_S
    while subprocess.run([*_PODMAN, "exec", f"drill-{name}", *test], check=False, capture_output=True).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"{name} is not healthy after {_PATIENCE_S} s:\n{run(*_PODMAN, 'logs', f'drill-{name}')}")
        time.sleep(1)


def memory_mib(name: str) -> tuple[int, int]:
    """Measure a container: how many processes it has, and their memory, with what they share counted once."""
    first = int(run(*_PODMAN, "inspect", "--format={{.State.Pid}}", f"drill-{name}"))
    group = re.search(r"memory:(\S+)|0::(\S+)", Path(f"/proc/{first}/cgroup").read_text())
    pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and _is_in(path, group)]
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    shares = [int(found[1]) for found in (re.search(r"^Pss:\s+(\d+)", one, re.MULTILINE) for one in rollups) if found]
    return len(pids), sum(shares) // 1024


def _is_in(path: Path, group: "re.Match[str] | None") -> bool:
    try:
        return group is not None and group[0] in (path / "cgroup").read_text()
    except OSError:  # it has ended
        return False


def write_variables(folder: Path, variables: Mapping[str, str]) -> None:
    """Split the variables as an operator does: by the image's own command."""
    (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    command = ["run", "--rm", *_HERE, "--user=0", f"--volume={folder}:/env", _IMAGE, "manage", "setup"]
    run(*_PODMAN, *command, "--file=/env/.env", "--split=/env", stderr=subprocess.STDOUT)


def main() -> None:
    """Play the drill."""
    if os.geteuid():
        sys.exit("The drill builds and runs containers: run it as root.")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="image-drill-")))
        storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
        (folder / "storage.conf").write_text(storage)
        os.environ["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
        build(base_image(folder))
        variables = stack.enter_context(servers(folder))
        write_variables(folder, variables)
        release = [*_PODMAN, "run", "--rm", *_HERE, *options_of("release"), f"--env-file={folder}/release.env", _IMAGE]
        last = run(*release, "release", stderr=subprocess.STDOUT).splitlines()[-1]
        say(f"release    ended with 0: {json.dumps(json.loads(last))[:80]} …")
        for name in PROCESSES:
            stack.enter_context(container(name, folder))
        for name in PROCESSES:
            wait_until_healthy(name)
            count, mib = memory_mib(name)
            limit = compose()["services"][name]["deploy"]["resources"]["limits"]["memory"]
            say(f"{name:10} is healthy: {count} processes, {mib} MiB of {limit}")
    say("all of compose.yaml's processes ran from the image, read-only and without rights, and ended when asked")


if __name__ == "__main__":
    main()
