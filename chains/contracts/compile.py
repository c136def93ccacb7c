"""Compile the Solidity contracts to the artifacts that the application and the tests load.

Compiling requires Node.js; using the artifacts does not: they are committed, and a test recompiles and compares them.

    python -m chains.contracts.compile           write the artifacts
    python -m chains.contracts.compile --check   only compare; exit 1 when one differs
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chains.contracts.node_packages import install, run_script

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = ROOT / "chains/contracts"
DEVELOPMENT = ROOT / "workshop/embedded/contracts"
TESTS = ROOT / "tests/chains/contracts/solidity"

# Source → artifact.
ARTIFACTS = {
    PRODUCTION / "Escrow.sol": PRODUCTION / "escrow.json",
    DEVELOPMENT / "TestToken.sol": DEVELOPMENT / "test_token.json",
    **{source: source.with_suffix(".json") for source in sorted(TESTS.glob("*.sol"))},
}


class CompilationError(Exception):
    """The compiler refuses a source, or warns about it."""


def main(arguments: list[str], artifacts: Mapping[Path, Path] = ARTIFACTS) -> int:
    """Write the artifacts, or with `--check` compare them, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compile the Solidity contracts.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when an artifact differs")
    check = parser.parse_args(arguments).check

    stale = False
    for artifact, compiled in zip(artifacts.values(), compile_contracts(list(artifacts)), strict=True):
        text = render(compiled)
        if artifact.exists() and artifact.read_text(encoding="utf-8") == text:
            continue
        stale = True
        if not check:
            artifact.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{artifact.name} {'differs from its source' if check else 'written'}\n")
    return 1 if check and stale else 0


def compile_contracts(sources: Sequence[Path]) -> list[dict[str, Any]]:
    """Compile files to their artifacts; each file has one contract, of the file's name.

    The result does not depend on the location of the files. In the runtime bytecode, the immutables are zeros;
    `immutableReferences` lists their positions. Raises `CompilationError`, and `NodeUnavailable` where Node.js or npm
    is missing.
    """
    return compile_texts([(source.stem, source.read_text(encoding="utf-8")) for source in sources])


def compile_texts(texts: Sequence[tuple[str, str]], *, allow_warnings: bool = False) -> list[dict[str, Any]]:
    """Compile (contract's name, source text), all in one process."""
    question = [{"name": name, "source": text} for name, text in texts]
    answers = run_script(PRODUCTION / "compile.mjs", install(PRODUCTION), question=question)
    for answer in answers:
        if complaints := answer.get("errors") or (not allow_warnings and answer["warnings"]):
            raise CompilationError("\n".join(complaints))
    return [_artifact(name, text, answer) for (name, text), answer in zip(texts, answers, strict=True)]


def render(artifact: Mapping[str, Any]) -> str:
    """Return the text of an artifact file."""
    return json.dumps(artifact, indent=2, ensure_ascii=False) + "\n"


def _artifact(name: str, text: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "contractName": name,
        "compiler": answer["compiler"],
        "sourceSha256": hashlib.sha256(text.encode()).hexdigest(),
        "abi": answer["abi"],
        "bytecode": answer["bytecode"],
        "runtimeBytecode": answer["runtimeBytecode"],
        "immutableReferences": answer["immutableReferences"],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
