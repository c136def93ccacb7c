#!/usr/bin/env python
"""Compile the Vyper contracts to the artifacts that the application loads.

The application needs no compiler: the artifacts are committed, a test recompiles and compares them.

    python payments/contracts/compile.py           write the artifacts
    python payments/contracts/compile.py --check   only compare; exit 1 when one differs
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

import vyper
from vyper.compiler.input_bundle import FilesystemInputBundle

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = ROOT / "payments/contracts"
DEVELOPMENT = ROOT / "allowance/embedded/contracts"

# Source → artifact.
ARTIFACTS = {
    PRODUCTION / "Escrow.vy": PRODUCTION / "escrow.json",
    DEVELOPMENT / "TestToken.vy": DEVELOPMENT / "test_token.json",
}


def main(arguments: list[str], artifacts: Mapping[Path, Path] = ARTIFACTS) -> int:
    """Write the artifacts, or with `--check` compare them, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compile the Vyper contracts.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when an artifact differs")
    check = parser.parse_args(arguments).check

    stale = False
    for source, artifact in artifacts.items():
        compiled = render(compile_contract(source))
        if artifact.exists() and artifact.read_text(encoding="utf-8") == compiled:
            continue
        stale = True
        if not check:
            artifact.write_text(compiled, encoding="utf-8")
        sys.stdout.write(f"{artifact.name} {'differs from its source' if check else 'written'}\n")
    return 1 if check and stale else 0


def compile_contract(source: Path) -> dict[str, object]:
    """Compile one Vyper file to its artifact.

    Modules of `snekmate` come from the installed package. Nothing in the result depends on where
    the files are. The runtime bytecode lacks the immutables: a deployment appends them.
    """
    bundle = FilesystemInputBundle([Path(str(distribution("snekmate").locate_file("")))])
    output = vyper.compile_from_file_input(
        bundle.load_file(source),
        bundle,
        output_formats=["abi", "bytecode", "bytecode_runtime"],
        # It would be a digest of the source text: without it a new comment leaves the code alone.
        no_bytecode_metadata=True,
    )
    return {
        "contractName": source.stem,
        "compiler": f"vyper {vyper.__long_version__}",
        "sourceSha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "abi": output["abi"],
        "bytecode": output["bytecode"],
        "runtimeBytecode": output["bytecode_runtime"],
    }


def render(artifact: dict[str, object]) -> str:
    """Return the text of an artifact file."""
    return json.dumps(artifact, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
