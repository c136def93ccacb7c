"""The files of every way to run the product, read as what starts the processes would read them."""

import configparser
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.documents.pages import ROOT

# The lines of the Procfile that stay; `release` ends.
PROCESSES = ("web", "worker", "webhooks", "beat")
# It runs only where somebody wants it.
OPTIONAL = "mcp"
_FOLDER = ROOT / "deploy/systemd"


def compose() -> dict[str, Any]:
    """Read compose.yaml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found


KUBERNETES = ROOT / "deploy/kubernetes"


def kubernetes() -> list[dict[str, Any]]:
    """Read every object of deploy/kubernetes that a cluster gets."""
    files = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    return [one for name in files for one in yaml.safe_load_all((KUBERNETES / name).read_text())]


def workloads() -> dict[str, dict[str, Any]]:
    """Read the job and the deployments of Kubernetes, by the names of their processes."""
    found = [one for one in kubernetes() if one["kind"] in ("Job", "Deployment")]
    return {one["metadata"]["name"].removeprefix("allowance-"): one for one in found}


def render() -> dict[str, dict[str, Any]]:
    """Read the processes of render.yaml, by their names."""
    services = yaml.safe_load((ROOT / "render.yaml").read_text())["services"]
    return {one["name"].removeprefix("allowance-"): one for one in services if "startCommand" in one}


def fly() -> dict[str, Any]:
    """Read fly.toml."""
    return tomllib.loads((ROOT / "fly.toml").read_text())


def app() -> dict[str, Any]:
    """Read app.json."""
    found: dict[str, Any] = json.loads((ROOT / "app.json").read_text())
    return found


def units() -> dict[str, dict[str, str]]:
    """Read what the unit of each process says of the service, with what all units share."""
    shared = sorted(_FOLDER.glob("allowance-.service.d/*.conf"))
    return {path.stem.removeprefix("allowance-"): _service([path, *shared]) for path in _FOLDER.glob("*.service")}


def dockerfile() -> list[tuple[str, str]]:
    """Read the instructions of the Dockerfile, without comments, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(name, value) for name, _, value in (line.partition(" ") for line in lines) if name]


def context() -> list[Path]:
    """List what stands in the root of the build's context: .dockerignore names it, and leaves out all else."""
    first, *others = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in ("", "#")]
    assert first == "*"
    return [ROOT / line.strip("!/") for line in others if line.startswith("!/")]


def _service(paths: list[Path]) -> dict[str, str]:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(paths)
    return dict(unit["Service"])
