"""Who may take how many of a process's threads, and where the others wait: in the event loop, holding none.

Whoever presents a credential chooses what it says, but not whether it holds. So a line of one's own is for callers whom
Django has recognised in this process; all others share a few, by what they come for: to log in, which is expensive, to
look at the console, with a key that is not known yet, or without one. A stranger who is recognised goes over to a line
of their own before anything else is done for them: so nobody stays for long in a place of the strangers. What a
stranger does cannot send away those whom the process knows.

Used by the event loop alone.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

from django.conf import settings
from django.http import parse_cookie

from allowance.front.incoming import Environ
from allowance.kernel.errors import RateLimited

THREADS = 8
PLACES_OF_A_CALLER = 6
PLACES_OF_STRANGERS = {"console": 2, "keys": 3, "elsewhere": 2}
# Whoever comes. A probe has a thread besides those of all others.
PLACES_OF_EVERYBODY = {"probes": 1, "login": 1}
_PLACES = PLACES_OF_STRANGERS | PLACES_OF_EVERYBODY
# Of one caller. Of strangers as many wait as there may be connections (Procfile): after a start, all callers are new.
MOST_WAITING = 256
# Of large answers that have been asked for and are not taken: of one line, and of all.
MOST_UNSENT_BYTES = 16 * 2**20
MOST_UNSENT_BYTES_OF_ALL = 64 * 2**20
_MOST_NAMES = 10_000


class CallerQueue:
    """The requests of one caller, or of some strangers: so many are in threads, the others wait in turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_of_strangers = name in PLACES_OF_STRANGERS
        self.places = asyncio.Semaphore(_PLACES.get(name, PLACES_OF_A_CALLER))
        self.present = 0


class CallerQueues:
    """All lines of a process."""

    def __init__(self) -> None:
        self._lines: dict[str, CallerQueue] = {}
        self._callers: OrderedDict[bytes, str] = OrderedDict()
        self._unsent_bytes: Counter[str] = Counter()

    @asynccontextmanager
    async def join(self, environ: Environ) -> AsyncIterator[CallerQueue]:
        """Stand in the line of who asks, until there is an answer.

        Raises:
            RateLimited: too many of theirs are there already.
        """
        name = self._name(environ)
        line = self._lines.get(name) or CallerQueue(name)
        if name not in _PLACES and line.present >= MOST_WAITING:
            raise RateLimited(retry_after_s=1)
        self._lines[name] = line
        line.present += 1
        try:
            yield line
        finally:
            line.present -= 1
            if not line.present:
                del self._lines[name]

    @asynccontextmanager
    async def keep(self, line: CallerQueue, size_bytes: int) -> AsyncIterator[None]:
        """Keep a large answer to who only reads, until it is sent.

        Raises:
            RateLimited: too much is kept already.
        """
        unsent = self._unsent_bytes
        if unsent[line.name] + size_bytes > MOST_UNSENT_BYTES or unsent.total() + size_bytes > MOST_UNSENT_BYTES_OF_ALL:
            raise RateLimited(retry_after_s=1)
        unsent[line.name] += size_bytes
        try:
            yield
        finally:
            unsent[line.name] -= size_bytes
            if not unsent[line.name]:
                del unsent[line.name]

    def learn(self, environ: Environ, caller: str | None) -> None:
        """Remember who presents this credential. "": it does not hold; None: nobody looked, and nothing is learnt."""
        credential = _credential(environ)
        if credential is None or caller is None:
            return
        self._callers.pop(credential, None)
        if caller:
            self._callers[credential] = caller
            if len(self._callers) > _MOST_NAMES:
                self._callers.popitem(last=False)

    def _name(self, environ: Environ) -> str:
        path = environ["PATH_INFO"].removesuffix("/")
        if path == "/readyz":
            return "probes"
        if path == "/console/login" and environ["REQUEST_METHOD"] == "POST":
            return "login"
        credential = _credential(environ)
        if credential is not None and credential in self._callers:
            return self._callers[credential]
        if _is_of_console(path):
            return "console"
        return "elsewhere" if credential is None else "keys"


def _credential(environ: Environ) -> bytes | None:
    """Digest what a request is judged by, however it is written around it: nothing here needs the secret itself."""
    if _is_of_console(environ["PATH_INFO"]):
        session = parse_cookie(environ.get("HTTP_COOKIE", "")).get(settings.SESSION_COOKIE_NAME)
        sent = {session} if session else set()
    else:
        keys = (environ.get("HTTP_AUTHORIZATION", "").rpartition(" ")[2], environ.get("HTTP_X_API_KEY", ""))
        sent = {key.strip() for key in keys if key.strip()}
    return sha256("\0".join(sorted(sent)).encode("latin-1", "replace")).digest() if sent else None


def _is_of_console(path: str) -> bool:
    return path == "/console" or path.startswith("/console/")
