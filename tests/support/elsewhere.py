"""Do something in another thread, which has a database connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from django.db import connection


def elsewhere(act: Callable[[], Any]) -> "Future[Any]":
    """Begin to do something in another thread; its result comes by the future."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(error)
        finally:
            connection.close()

    threading.Thread(target=run, daemon=True).start()
    return future
