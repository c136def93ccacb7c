"""What a bare client can do: `python -m tests.benchmarks.webhook_posts PORT COUNT PAYEES AT_ONCE`.

POSTs as the product's, over a connection each, without a database, signatures, checks of addresses or judgement.
Prints when it began and when it ended, in seconds since the epoch.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Iterator

import aiohttp

_BODY = b'{"id": "evt_01m7xj742p0000000000000000", "type": "payment.approved", "data": {' + b" " * 500 + b"}}"
_HEADERS = {
    "webhook-id": "evt_01m7xj742p0000000000000000",
    "webhook-timestamp": "1800000000",
    "webhook-signature": f"v1,{'a' * 44} v1a,{'b' * 88}",
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "Allowance-Webhooks/1",
}


async def main(port: int, count: int, payees: int, at_once: int) -> None:
    """Post, so many at once."""
    urls = itertools.islice(itertools.cycle([f"http://127.0.0.1:{port}/{payee}" for payee in range(payees)]), count)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        began = time.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(_post(session, urls))
        print(began, time.time())


async def _post(session: aiohttp.ClientSession, urls: Iterator[str]) -> None:
    for url in urls:
        async with session.post(url, data=_BODY, headers=_HEADERS) as response:
            if response.status != 200:
                raise RuntimeError(f"{url} answered {response.status}.")
            await response.read()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
