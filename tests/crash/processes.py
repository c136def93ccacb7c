"""The product's processes, as the Procfile names them: several of each, killed and started again one by one."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from tests.crash.installation import wait_until
from tests.crash.proxy import Proxy
from tests.support.house import House

WEBS, WORKERS, WEBHOOKS, BEAT = ("web-1", "web-2"), ("worker-1", "worker-2"), "webhooks", "beat"


class CrashHouse(House):
    """All processes of one run. Each knows the nodes by addresses of its own, and its name in the database.

    `proxies` are those of a chain, by what the names of its variables begin with.
    """

    def __init__(self, logs: Path, proxies: Mapping[str, Sequence[Proxy]]) -> None:
        """Configure it as a deployment is: by explicit settings, nothing embedded."""
        own = {
            "RATE_LIMIT_PER_MINUTE": "60000",
            "EMBEDDED": "false",
            "WEBHOOKS_ALLOW_PRIVATE": "false",
            "EMBEDDED_DIR": str(logs / "none"),  # so that it leaves the servers of this run alone
            "HTTPS": "false",
            "ALLOWED_HOSTS": "127.0.0.1",
            "WEB_CONCURRENCY": "1",
            # So few payments a second would hardly share transactions.
            "SETTLE_WITHIN_MS": "150",
            "WORKER_CONCURRENCY": "2",
            "WEBHOOK_CONCURRENCY": "2",
        }
        super().__init__(logs, {**os.environ, **own})
        self._proxies = proxies

    def __enter__(self) -> Self:
        for name in (*WEBS, *WORKERS, WEBHOOKS, BEAT):
            nodes = {
                f"{chain}_RPC_URLS": ",".join(one.url(name) for one in its) for chain, its in self._proxies.items()
            }
            # What delivers webhooks does so to this machine, which is for development.
            development = {"EMBEDDED": "true", "WEBHOOKS_ALLOW_PRIVATE": "true"} if name == WEBHOOKS else {}
            quiet = () if name in WEBS else ("--loglevel", "WARNING")
            self.start(name, *quiet, PGAPPNAME=name, **nodes, **development)
        return self

    def stop(self, patience_s: float = 0) -> list[str]:
        """Kill all: there is nothing left to wait for."""
        for name in self.names():
            self.kill(name)
        return []

    def wait_for_webs(self) -> None:
        """Wait until every web server that runs answers; one that ends by itself is started again."""
        for web in WEBS:
            wait_until(partial(self._revived, web), f"{web} answers")

    def _revived(self, web: str) -> bool:
        self.revive()
        return self.is_alive(web)
