"""Who may take how many of a process's threads, and where the others wait: in the event loop, holding none.

Whoever presents a credential chooses what it says, but not whether it holds. So a line of one's own is for callers whom
Django has recognised in this process; all others share two: one for the console, where a login is expensive, and one
for everything else. A stranger who is recognised goes over to a line of their own before anything else is done for
them: so nobody stays for long in a place of the strangers. The platform's probes wait for none of them.

Used by the event loop alone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

from allowance.front.incoming import Environ
from allowance.kernel.errors import RateLimited

THREADS = 8
PLACES_OF_A_CALLER = 6
PLACES = {"probes": 1, "console": 2, "elsewhere": 4}
MOST_WAITING = 256
# Of answers that a caller has asked for and does not take.
MOST_UNSENT_BYTES = 16 * 2**20
_MOST_NAMES = 10_000


class Line:
    """The requests of one caller, or of all strangers: so many are in threads, the others wait in turn."""

    def __init__(self, name: str) -> None:
        self.is_of_strangers = name in PLACES
        self.places = asyncio.Semaphore(PLACES.get(name, PLACES_OF_A_CALLER))
        self.present = 0
        self.unsent_bytes = 0


class Lines:
    """All lines of a process."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._callers: OrderedDict[bytes, str] = OrderedDict()

    @asynccontextmanager
    async def join(self, environ: Environ) -> AsyncIterator[Line]:
        """Stand in the line of who asks, until the answer is sent.

        Raises:
            RateLimited: too many are there already, or they do not take their answers.
        """
        name = self._name(environ)
        line = self._lines.get(name) or Line(name)
        if line.present >= MOST_WAITING or line.unsent_bytes > MOST_UNSENT_BYTES:
            raise RateLimited(retry_after_s=1)
        self._lines[name] = line
        line.present += 1
        try:
            yield line
        finally:
            line.present -= 1
            if not line.present:
                del self._lines[name]

    def learn(self, environ: Environ, caller: str | None) -> None:
        """Remember who presents this credential; None: it does not hold, or nobody looked."""
        name = _credential(environ)
        if name is None:
            return
        self._callers.pop(name, None)
        if caller is not None:
            self._callers[name] = caller
            if len(self._callers) > _MOST_NAMES:
                self._callers.popitem(last=False)

    def _name(self, environ: Environ) -> str:
        if is_probe(environ):
            return "probes"
        credential = _credential(environ)
        known = None if credential is None else self._callers.get(credential)
        return known or ("console" if environ["PATH_INFO"].startswith("/console") else "elsewhere")


def is_probe(environ: Environ) -> bool:
    """Tell whether a request asks how things stand: it has a thread of its own, besides those of all others."""
    return environ["PATH_INFO"].removesuffix("/") in ("/readyz", "/metrics")


def _credential(environ: Environ) -> bytes | None:
    """Digest what a request presents: nothing here needs the secret itself."""
    sent = [environ.get(f"HTTP_{name}", "") for name in ("AUTHORIZATION", "X_API_KEY", "COOKIE")]
    return sha256("\0".join(sent).encode()).digest() if any(sent) else None
