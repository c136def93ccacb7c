"""`allowance-client` as others install it: a wheel of its own, typed, with nothing of the product."""

import json
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import Parser
from typing import get_args, get_type_hints

import pytest
from allowance_client import Budget, Payment, PaymentState, Service
from allowance_client.connections import VERSION
from allowance_client.models import AgentStatus, ServiceStatus
from allowance_client.payment_models import PaymentStatus
from allowance_mcp.server import VERSION as TOOLS_VERSION

import policy.models
import services.models
from payments import lifecycle
from tests.test_project import ROOT, pins

FOLDER = ROOT / "clients/python"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
NPM_FILES = ("package.json", "package-lock.json")
USE = """
import allowance_client, sys
assert sys.prefix in allowance_client.__file__
print(allowance_client.Allowance("https://pay.example", "alw_secret"))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def build_wheel(folder):
    """Build it from a copy: a build leaves folders behind."""
    subprocess.run(["cp", "-r", str(FOLDER), str(folder / "source")], check=True)
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", *build, str(folder / "source")], check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_the_client_with_its_types_and_nothing_of_the_product(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("/METADATA"))

    assert {"allowance_client/py.typed", "allowance_mcp/py.typed"} <= set(names)
    assert {name.split("/")[0] for name in names if "dist-info" not in name} <= {"allowance_client", "allowance_mcp"}
    told = Parser().parsestr(metadata)
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("allowance-client", VERSION, "Apache-2.0")


def test_the_wheel_works_where_there_is_no_checkout(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=False, system_site_packages=False)
    python = tmp_path / "env/bin/python"
    site = subprocess.check_output([python, "-c", "import site; print(site.getsitepackages()[0])"], text=True).strip()
    packages = subprocess.check_output(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    install = ["install", "--no-deps", "--no-index", "--quiet", "--target", site, str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True)

    # What it needs is there already, in the environment of the tests; the checkout is not on the path.
    done = subprocess.run(
        [python, "-c", f"import sys; sys.path.append({packages!r}){USE}"],
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "<Allowance https://pay.example>\n"


def test_client_and_server_have_one_version_and_the_tests_run_with_what_the_client_needs():
    product = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {requirement.split(">")[0] for requirement in PROJECT["dependencies"]}

    assert PROJECT["version"] == product["version"] == VERSION == TOOLS_VERSION
    of_typescript = [json.loads((ROOT / f"clients/typescript/{name}").read_text()) for name in NPM_FILES]
    assert {one["version"] for one in [*of_typescript, of_typescript[1]["packages"][""]]} == {VERSION}
    assert needed - pins("requirements.txt").keys() == set()


def test_what_the_client_calls_a_state_is_what_the_server_calls_it():
    assert set(get_args(PaymentStatus)) == {*lifecycle.PaymentStatus, *lifecycle.HeldStatus}
    assert set(get_args(ServiceStatus)) == set(services.models.ServiceStatus)
    assert set(get_args(AgentStatus)) == set(policy.models.AgentStatus)
    assert get_type_hints(Payment)["status"] == get_type_hints(PaymentState)["status"] == PaymentStatus
    assert get_type_hints(Service)["status"] == ServiceStatus
    assert get_type_hints(Budget)["status"] == AgentStatus
