"""Test the tests of the escrow: break its source in one place after the other, and see that they notice each time.

Takes Node.js and half an hour. Exits 1 when a break goes unnoticed, or does not apply to the source any more.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from chains.contracts.compile import PRODUCTION, compile_texts
from tests.chains.contracts.break_list import BREAKS, Break

TESTS = Path(__file__).parent
SOURCE = PRODUCTION / "Escrow.sol"
# The tests ask nothing of Django and of the servers that the other tests have.
PYTEST = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:django", "-p", "no:cacheprovider"]
OPTIONS = [f"--rootdir={TESTS.parents[2]}", f"--confcutdir={TESTS}", "-x", "-q", "--tb=no", "-rfE"]
PATIENCE_S = 600
# So many sources go to one process of the compiler, which takes a second or two for each, and is given five minutes.
AT_ONCE = 20


def main() -> int:
    """Report each break as noticed or not; return the exit code."""
    parser = argparse.ArgumentParser(prog="make contract-breaks", description=__doc__)
    parser.add_argument(
        "words", nargs="*", help='Only the breaks whose file or name contains these words, such as "two keys".'
    )
    words = " ".join(parser.parse_args().words)
    wanted = [one for one in BREAKS if words in _describe(one)]
    started, unnoticed = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = pool.map(_find_failure, _compile(wanted, Path(folder)), [None, *wanted])
        if unbroken := next(failures):
            raise SystemExit(f"The tests do not even pass unbroken: {unbroken}")
        for one, failure in zip(wanted, failures, strict=True):
            unnoticed += failure is None
            sys.stdout.write(f"{'noticed' if failure else 'NOT NOTICED'}: {_describe(one)}: {failure}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(wanted)} breaks, {unnoticed} not noticed, {time.monotonic() - started:.0f} s\n")
    return 1 if unnoticed or not wanted else 0


def apply(one: Break, source: str) -> str:
    """Break the source. Raises `SystemExit` unless the text to be replaced stands there exactly once."""
    if source.count(one.old) != 1 or one.new == one.old:
        raise SystemExit(f"'{_describe(one)}' does not apply to {SOURCE.name} any more: {one.old!r}")
    return source.replace(one.old, one.new)


def _compile(breaks: Sequence[Break], folder: Path) -> list[Path]:
    """Write the artifact of the source as it is, then that of every break."""
    source = SOURCE.read_text(encoding="utf-8")
    texts = [(SOURCE.stem, apply(one, source)) for one in breaks]
    (unbroken,) = compile_texts([(SOURCE.stem, source)], allow_warnings=True)
    pages = [texts[start : start + AT_ONCE] for start in range(0, len(texts), AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = pool.map(partial(compile_texts, allow_warnings=True), pages)
        broken = [artifact for page in compiled for artifact in page]
    for one, artifact in zip(breaks, broken, strict=True):
        if artifact["bytecode"] == unbroken["bytecode"]:
            raise SystemExit(f"'{_describe(one)}' changes nothing")
    artifacts = [unbroken, *broken]
    paths = [folder / f"{number}.json" for number in range(len(artifacts))]
    for path, artifact in zip(paths, artifacts, strict=True):
        path.write_text(json.dumps(artifact), encoding="utf-8")
    return paths


def _find_failure(artifact: Path, one: Break | None) -> str | None:
    """Run the tests that must notice; return the first that fails or cannot even be set up; None: all pass."""
    files = {one.noticed_by} if one else {each.noticed_by for each in BREAKS}
    done = subprocess.run(
        [*PYTEST, *OPTIONS, *(str(TESTS / file) for file in sorted(files))],
        env={**os.environ, "ESCROW_ARTIFACT": str(artifact)},
        cwd=TESTS.parents[2], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    failed = re.search(r"^(?:FAILED|ERROR) \S+?::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode and failed is None:
        raise SystemExit(done.stdout + done.stderr)
    return failed[1] if failed else None


def _describe(one: Break) -> str:
    return f"{one.noticed_by.removeprefix('test_').removesuffix('.py').replace('_', ' ')}: {one.name}"


if __name__ == "__main__":
    sys.exit(main())
