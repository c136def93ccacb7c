"""Queues in front of a process's threads: a caller gets some of the threads, and waits in the event loop for the rest.

A caller chooses what a credential says, but not whether it is valid. So only callers whom Django has recognised in this
process have a queue of their own. All others share a few queues, by what they ask for: to log in, which is expensive; a
page of the console; the API with a key that is not known yet; or anything without a credential. Whose key it is is
asked first, so no caller of the API occupies a shared thread for long. Unknown callers cannot displace those whom the
process knows.

Used by the event loop alone.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from django.conf import settings
from django.http import parse_cookie

from allowance.front.incoming import Environ
from foundation.api.credentials import sent_credentials
from foundation.kernel.errors import RateLimited

THREADS = 20
THREADS_PER_CALLER = 16
THREADS_OF_UNKNOWN_CALLERS = {"console": 2, "keys": 3, "elsewhere": 2}
# For every caller, known or not. Probes have a thread of their own.
THREADS_SET_ASIDE = {"probes": 1, "login": 1}
_THREADS = THREADS_OF_UNKNOWN_CALLERS | THREADS_SET_ASIDE
# Of one caller. The shared queues are bounded by the number of connections (Procfile): after a start, all are unknown.
MOST_WAITING = 256
# Of large answers that their callers do not read: in one queue, and in all.
MAX_UNSENT_BYTES = 16 * 2**20
MAX_UNSENT_BYTES_OF_ALL = 64 * 2**20
_MAX_CALLERS = 10_000


class CallerQueue:
    """The requests of one caller, or of some unknown ones: some are in threads, the others wait in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.threads = asyncio.Semaphore(_THREADS.get(name, THREADS_PER_CALLER))
        self.present = 0


class CallerQueues:
    """All queues of a process."""

    def __init__(self) -> None:
        self._queues: dict[str, CallerQueue] = {}
        self._callers: OrderedDict[bytes, str] = OrderedDict()
        self._unsent_bytes: Counter[str] = Counter()

    @contextmanager
    def join(self, environ: Environ) -> Iterator[CallerQueue]:
        """Count a request in its caller's queue, until the answer is sent.

        Raises:
            RateLimited: the caller has too many requests there already.
        """
        name = self._name(environ)
        queue = self._queues.get(name) or CallerQueue(name)
        if name not in _THREADS and queue.present >= MOST_WAITING:
            raise RateLimited(retry_after_s=1)
        self._queues[name] = queue
        queue.present += 1
        try:
            yield queue
        finally:
            queue.present -= 1
            if not queue.present:
                del self._queues[name]

    @contextmanager
    def keep(self, queue: CallerQueue, size_bytes: int) -> Iterator[None]:
        """Hold a large answer to a reading request in memory, until it is sent.

        Raises:
            RateLimited: too many bytes are held already.
        """
        unsent = self._unsent_bytes
        if unsent[queue.name] + size_bytes > MAX_UNSENT_BYTES or unsent.total() + size_bytes > MAX_UNSENT_BYTES_OF_ALL:
            raise RateLimited(retry_after_s=1)
        unsent[queue.name] += size_bytes
        try:
            yield
        finally:
            unsent[queue.name] -= size_bytes
            if not unsent[queue.name]:
                del unsent[queue.name]

    def learn(self, environ: Environ, caller: str | None) -> None:
        """Remember whose credential this is. "": it is not valid; None: nothing looked at it, so nothing is learnt."""
        credential = None if caller is None else _credential(environ)
        if credential is None:
            return
        self._callers.pop(credential, None)
        if caller:
            self._callers[credential] = caller
            if len(self._callers) > _MAX_CALLERS:
                self._callers.popitem(last=False)

    def is_of_unknown_key(self, environ: Environ) -> bool:
        """Tell whether a request bears a key, or what looks like one, of which nothing is known."""
        return self._name(environ) == "keys"

    def _name(self, environ: Environ) -> str:
        path = environ["PATH_INFO"].removesuffix("/")
        if path == "/readyz":
            return "probes"
        if f"{path}/".startswith("/console/login/") and environ["REQUEST_METHOD"] == "POST":
            return "login"
        credential = _credential(environ)
        if credential is not None and credential in self._callers:
            self._callers.move_to_end(credential)  # who was not here for longest is forgotten first
            return self._callers[credential]
        if _is_of_console(path):
            return "console"
        return "elsewhere" if credential is None else "keys"


def _credential(environ: Environ) -> bytes | None:
    """Digest a request's credential, without the text around it: the secret itself is not kept."""
    if _is_of_console(environ["PATH_INFO"]):
        session = parse_cookie(environ.get("HTTP_COOKIE", "")).get(settings.SESSION_COOKIE_NAME)
        sent = frozenset({session} if session else ())
    else:
        sent = sent_credentials(environ)
    return sha256("\0".join(sorted(sent)).encode("latin-1", "replace")).digest() if sent else None


def _is_of_console(path: str) -> bool:
    return path == "/console" or path.startswith("/console/")
