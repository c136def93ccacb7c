"""A client process of a storm: `python -m tests.support.client THREADS`. Knows nothing of Allowance but its address.

Reads jobs from the first line, says "ready" when its threads are, waits for "go", prints each answer as it comes.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

_printing = threading.Lock()
_local = threading.local()


def main() -> None:
    threads = int(sys.argv[1])
    jobs = json.loads(sys.stdin.readline())
    everyone = threading.Barrier(threads + 1)
    with ThreadPoolExecutor(threads, initializer=_start) as pool:
        for _ in range(threads):
            pool.submit(everyone.wait)
        everyone.wait()
        _say("ready")
        sys.stdin.readline()
        for job in jobs:
            pool.submit(_shoot, *job)


def _start() -> None:
    _local.session = requests.Session()


def _shoot(index: int, url: str, api_key: str, idempotency_key: str, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {api_key}", "Idempotency-Key": idempotency_key}
    sent_at = time.monotonic()
    try:
        response = _local.session.post(f"{url}/v1/payments/request", json=body, headers=headers, timeout=60)
    except requests.RequestException as error:
        _say(json.dumps([index, 0, repr(error), False, sent_at]))
    else:
        is_replay = response.headers.get("Idempotent-Replayed") == "true"
        _say(json.dumps([index, response.status_code, response.text, is_replay, sent_at]))


def _say(line: str) -> None:
    with _printing:
        print(line, flush=True)  # noqa: T201 - what this process is for


if __name__ == "__main__":
    main()
