"""What an installation hands out to whoever has its address alone: both clients, and how to install them."""

import json
import re
import subprocess
import sys
import venv
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import requests
from django.test import Client

from foundation.api.client_packages import TARBALL, WHEEL, make_packages
from tests.clients.test_distribution import build_wheel
from tests.support.javascript import needs_node
from workshop.localnet.folder import ROOT

pytestmark = pytest.mark.long(60)
_NPM = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts=false"]
_USE = 'import { Allowance } from "allowance-client"; console.log(typeof Allowance);'


def _contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def _headers(contents):
    (metadata,) = (data.decode() for name, data in contents.items() if name.endswith("/METADATA"))
    lines = metadata.partition("\n\n")[0].splitlines()
    # In quotes of either kind, and its bounds in either order.
    return {"".join(sorted(re.sub(r"[\s\"']", "", line))) for line in lines if not line.startswith("Metadata-Version")}


def _run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_that_is_handed_out_is_the_one_that_a_build_makes(tmp_path):
    built = _contents(build_wheel(tmp_path))
    handed_out = _contents(BytesIO(make_packages(ROOT / "clients")[WHEEL]))

    assert {name for name in built if not name.endswith("top_level.txt")} == set(handed_out)
    assert {name for name in handed_out if ".dist-info/" not in name and built[name] != handed_out[name]} == set()
    assert _headers(handed_out) == _headers(built)


def test_they_are_the_same_bytes_each_time():
    assert make_packages(ROOT / "clients") == make_packages(ROOT / "clients")


def test_only_they_are_handed_out_by_name(db):
    anonymous = Client()

    answers = {name: anonymous.get(f"/v1/clients/{name}") for name in (WHEEL, TARBALL)}

    assert {answer.status_code for answer in answers.values()} == {200}
    for name, answer in answers.items():
        assert (answer["Access-Control-Allow-Origin"], answer["Cache-Control"]) == ("*", "public, max-age=300")
        again = anonymous.get(f"/v1/clients/{name}", headers={"If-None-Match": answer["ETag"]})
        assert again.status_code == 304
    for other in ("", "x.whl", f"..%2F{WHEEL}", "..%2Fpyproject.toml", WHEEL.replace("-py3", "-py2")):
        assert anonymous.get(f"/v1/clients/{other}").status_code == 404


@pytest.mark.parametrize("page", ["clients", "mcp"])
def test_pages_and_llms_txt_of_an_installation_name_what_it_hands_out(db, page):
    anonymous = Client()

    told = anonymous.get(f"/v1/docs/{page}.md").content.decode() + anonymous.get("/llms.txt").content.decode()

    named = set(re.findall(r"/v1/clients/[\w.-]+\.(?:whl|tgz)", told))
    assert named == {f"/v1/clients/{WHEEL}", f"/v1/clients/{TARBALL}"}
    assert "./clients/" not in told


def test_pip_installs_the_wheel_from_an_installation(committed, servers, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    target = _run(tmp_path / "env/bin/python", "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path)
    address = f"{servers.urls[0]}/v1/clients/{WHEEL}"

    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "env/bin/python", "install", "--quiet", "--no-deps"]
    _run(*pip, f"allowance-client[mcp] @ {address}", cwd=tmp_path)

    assert (Path(target.strip()) / "allowance_mcp/py.typed").exists()


@needs_node
def test_npm_installs_the_tarball_from_an_installation(committed, servers, tmp_path):
    _run(*_NPM, f"{servers.urls[0]}/v1/clients/{TARBALL}", cwd=_project(tmp_path))

    assert _run("node", "--input-type=module", "-e", _USE, cwd=tmp_path) == "function\n"


@needs_node
def test_npm_installs_the_folder_of_a_checkout(tmp_path):
    checkout = tmp_path / "checkout"
    # As it is cloned: what an earlier installation left behind is not there.
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "clients/typescript"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "project").mkdir()

    _run(*_NPM, checkout / "clients/typescript", cwd=_project(tmp_path / "project"))

    assert _run("node", "--input-type=module", "-e", _USE, cwd=tmp_path / "project") == "function\n"


def _project(folder: Path) -> Path:
    (folder / "package.json").write_text(json.dumps({"name": "mine", "version": "1.0.0", "private": True}))
    return folder


def test_over_a_real_server_they_need_no_key(committed, servers):
    for name, content in make_packages(ROOT / "clients").items():
        assert requests.get(f"{servers.urls[0]}/v1/clients/{name}", timeout=30).content == content
