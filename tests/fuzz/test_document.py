"""schemathesis over our own document, all checks, stateful: what the document says is what the server does."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.options import AGAIN, EXTRA_MINUTES, SEED
from workshop.localnet.folder import ROOT

pytestmark = [pytest.mark.hard, pytest.mark.long(60)]

_CONFIG = Path(__file__).parent / "schemathesis.toml"
# Of each operation, in two phases; by count, since a limit in time would cut off what a seed stands for.
_EXAMPLES = 50 + int(EXTRA_MINUTES * 100)
_LIMIT_S = 600 * (1 + EXTRA_MINUTES)
# Where a run must have been: else it was refused at the door, and shows nothing.
_DEEP = {
    *(("requestPayment", status) for status in (201, 400, 403, 404, 405, 409, 415, 422)),
    *(("evaluatePayment", status) for status in (200, 400, 404, 405, 415)),
    *(("getPayment", status) for status in (200, 404, 405)),
    *(("getBudget", status) for status in (200, 401, 404, 405)),
    *(("registerService", status) for status in (200, 201, 400, 415)),
    *(("listLogs", status) for status in (200, 400, 405)),
    *(("listPayments", status) for status in (200, 400, 405)),
    *(("getPaymentProof", status) for status in (200, 404, 405)),
    *(("listServices", status) for status in (200, 400, 405)),
    *(("getService", status) for status in (200, 404, 405)),
    *(("getLogEntry", status) for status in (200, 404, 405)),
    *(("getKey", status) for status in (200, 401, 405)),
    ("requestPayment", "replay"),
    ("getPayment", "settled"),
}


def test_every_answer_to_schemathesis_is_in_the_document(cast, stage, tmp_path):
    been = tmp_path / "been"
    run = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", _CONFIG, "run", f"{stage}/v1/openapi.json",
            "--no-color", "--seed", str(SEED), "--max-examples", str(_EXAMPLES),
        ],
        env={**os.environ, "FUZZ_KEY": cast.key, "FUZZ_BEEN": str(been)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=_LIMIT_S, check=False,
    )  # fmt: skip

    assert run.returncode == 0, f"{run.stdout}\nAgain: {AGAIN}"
    seen = Counter(tuple(line.split()) for line in been.read_text().splitlines())

    sys.stdout.write("".join(f"{number:6} {' '.join(what)}\n" for what, number in sorted(seen.items())))
    assert {(operation, str(what)) for operation, what in _DEEP} - seen.keys() == set(), AGAIN
