"""The distributions of this checkout: the product alone, and what the workshop adds to it."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.test_project import ROOT

PACKAGES = Path(sysconfig.get_path("purelib"))
WORKSHOP = tomllib.loads((ROOT / "workshop/pyproject.toml").read_text())
# A product that has nothing to start with says so before it reads a variable.
SECRETS = {"SECRET_KEY", "DATABASE_URL", "REDIS_URL", "RELAYER_SEED"}


@pytest.fixture
def alone(tmp_path):
    """Run Python with all packages of this environment but the workshop, as a server has them."""
    for found in PACKAGES.iterdir():
        if not found.name.startswith("allowance_workshop") and found.suffix != ".pth":
            (tmp_path / found.name).symlink_to(found)

    def run(*arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if name not in SECRETS and name != "EMBEDDED"}
        return subprocess.run(
            # -S: without the environment's own packages, which are replaced by those of the path.
            [sys.executable, "-S", "manage.py", *arguments],
            cwd=ROOT, env={**environment, "PYTHONPATH": str(tmp_path), **variables},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_a_server_that_shall_start_local_ones_says_what_is_not_installed(alone):
    refused = alone("doctor", EMBEDDED="true")

    assert refused.returncode == 1
    assert "install allowance-workshop" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_server_has_the_commands_of_operators_and_none_of_the_workshop(alone):
    commands = {line.strip() for line in alone("help").stdout.splitlines()}

    assert {"archive", "doctor", "setup", "verify_log"} <= commands
    assert not {"demo", "seed_history"} & commands


def test_this_checkout_has_the_commands_of_the_workshop():
    told = subprocess.run([sys.executable, "manage.py", "help"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert {"demo", "seed_history"} <= {line.strip() for line in told.stdout.splitlines()}


def test_the_wheel_of_the_workshop_has_all_of_it_but_its_tests(tmp_path):
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", str(ROOT / "workshop"), str(source)], check=True)
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", *build, str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    tracked = subprocess.check_output(["git", "ls-files", "workshop"], cwd=ROOT, text=True).split()
    assert names == {name for name in tracked if not name.startswith("workshop/tests/")} - {"workshop/pyproject.toml"}


def test_the_workshop_has_the_version_of_the_product():
    product = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert WORKSHOP["project"]["version"] == product["version"]
