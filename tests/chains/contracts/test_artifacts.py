"""The committed artifacts are what the sources compile to."""

import json

import pytest

from chains.contracts import compile as compiler
from tests.chains.contracts.world import ESCROW
from tests.support.javascript import install_or_skip
from workshop.embedded.artifacts import is_code_of

SOURCE = compiler.PRODUCTION / "Escrow.sol"


@pytest.fixture(scope="module")
def node():
    install_or_skip(compiler.PRODUCTION)


def test_the_committed_artifacts_are_their_recompiled_sources(node, capsys):
    code = compiler.main(["--check"])

    assert (code, capsys.readouterr().out) == (0, "")


def test_every_solidity_source_has_an_artifact():
    sources = set(compiler.ROOT.glob("[!.]*/**/*.sol"))

    assert sources == set(compiler.ARTIFACTS)
    assert [artifact for artifact in compiler.ARTIFACTS.values() if not artifact.exists()] == []


def test_check_reports_an_artifact_that_differs_and_leaves_it_alone(node, tmp_path, capsys):
    stale = tmp_path / "escrow.json"
    stale.write_text("{}\n")

    assert compiler.main(["--check"], {SOURCE: stale}) == 1
    assert stale.read_text() == "{}\n"
    assert capsys.readouterr().out == "escrow.json differs from its source\n"


def test_what_was_written_passes_the_check(node, tmp_path):
    artifacts = {SOURCE: tmp_path / "escrow.json"}

    assert compiler.main([], artifacts) == 0
    assert compiler.main(["--check"], artifacts) == 0


def test_bytecode_depends_on_neither_place_nor_comments(node, tmp_path):
    elsewhere = tmp_path / "Escrow.sol"
    elsewhere.write_text(SOURCE.read_text() + "// One more comment.\n")

    (compiled,) = compiler.compile_contracts([elsewhere])

    assert {**compiled, "sourceSha256": ""} == {**ESCROW, "sourceSha256": ""}


def test_a_source_that_does_not_compile_is_refused(node):
    with pytest.raises(compiler.CompilationError, match="ParserError"):
        compiler.compile_texts([("Escrow", "contract Escrow { nonsense }")])


def test_a_source_with_a_warning_is_refused(node):
    with pytest.raises(compiler.CompilationError, match="SPDX license identifier"):
        compiler.compile_texts([("Escrow", "pragma solidity 0.8.37; contract Escrow {}")])


def test_deployed_code_is_the_artifact_with_its_immutables(world):
    code = world.w3.eth.get_code(world.escrow.address)

    assert is_code_of(code, ESCROW)
    assert code != bytes.fromhex(ESCROW["runtimeBytecode"][2:])
    assert len(code) < 24_576  # EIP-170


def test_other_code_is_not_that_of_the_artifact(world):
    code = world.w3.eth.get_code(world.escrow.address)

    assert not is_code_of(world.w3.eth.get_code(world.token.address), ESCROW)
    assert not is_code_of(code + b"\0", ESCROW)
    assert not is_code_of(bytes([code[0] ^ 1]) + code[1:], ESCROW)


def test_the_lock_of_the_compiler_names_no_index():
    lock = (compiler.PRODUCTION / "package-lock.json").read_text()

    assert "resolved" not in lock
    assert "://" not in lock
    packages = json.loads(lock)["packages"]
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []
