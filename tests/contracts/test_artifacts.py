"""The committed artifacts are what the sources compile to."""

import subprocess
import sys

import pytest

from payments.contracts import compile as compiler
from tests.contracts.conftest import ESCROW


@pytest.mark.parametrize("source", compiler.ARTIFACTS, ids=lambda source: source.name)
def test_an_artifact_equals_its_recompiled_source(source):
    committed = compiler.ARTIFACTS[source].read_text(encoding="utf-8")

    assert committed == compiler.render(compiler.compile_contract(source))
    assert committed.endswith("}\n")


def test_the_check_of_the_build_accepts_the_committed_artifacts():
    check = subprocess.run([sys.executable, compiler.__file__, "--check"], check=False)

    assert check.returncode == 0


def test_check_reports_an_artifact_that_differs_and_leaves_it_alone(tmp_path, capsys):
    stale = tmp_path / "escrow.json"
    stale.write_text("{}\n")
    artifacts = {compiler.PRODUCTION / "Escrow.vy": stale}

    assert compiler.main(["--check"], artifacts) == 1
    assert stale.read_text() == "{}\n"
    assert capsys.readouterr().out == "escrow.json differs from its source\n"


def test_what_was_written_passes_the_check(tmp_path):
    artifacts = {compiler.PRODUCTION / "Escrow.vy": tmp_path / "escrow.json"}

    assert compiler.main([], artifacts) == 0
    assert compiler.main(["--check"], artifacts) == 0


def test_bytecode_does_not_depend_on_where_the_source_lies(tmp_path):
    elsewhere = tmp_path / "Escrow.vy"
    elsewhere.write_bytes((compiler.PRODUCTION / "Escrow.vy").read_bytes())

    assert compiler.compile_contract(elsewhere) == ESCROW


def test_deployed_code_is_the_artifact_followed_by_the_immutables(world):
    code = world.w3.eth.get_code(world.escrow.address)

    assert code.startswith(bytes.fromhex(ESCROW["runtimeBytecode"][2:]))
    assert len(code) < 24_576  # EIP-170
