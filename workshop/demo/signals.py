"""Turn Ctrl-C, SIGTERM and a closed terminal into one exception."""

import signal
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody wants the demo to stop. Like KeyboardInterrupt, it is nobody's error."""


def listen() -> None:
    """Raise `StopRequested` in the main thread at the first signal; the ones that follow change nothing."""
    for one in _SIGNALS:
        # Under nohup a terminal may close.
        if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN:
            signal.signal(one, _request)


def ignore() -> None:
    """Let nothing interrupt what is being done now. Processes that are started do not inherit this."""
    for one in _SIGNALS:
        signal.signal(one, _do_nothing)


def _request(*_: object) -> NoReturn:
    ignore()
    raise StopRequested


def _do_nothing(*_: object) -> None:
    pass
