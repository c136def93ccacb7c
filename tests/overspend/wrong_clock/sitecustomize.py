"""Gives a Python process a clock that is wrong by as many seconds as stand in the file that CLOCK_FILE names.

Python imports a module of this name before any other, so whoever has this folder in PYTHONPATH has the wrong clock from
its start, and so have the processes that it starts. The file is read each time: a clock can jump while they run.
"""

import ctypes
import gc
import os
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

_FILE = Path(os.environ["CLOCK_FILE"])
_time, _now = time.time, datetime.now


def _ahead_s() -> float:
    return float(_FILE.read_text())


def _wrong_time() -> float:
    return _time() + _ahead_s()


def _wrong_time_ns() -> int:
    return int(_wrong_time() * 10**9)


def _wrong_now(_kind: type, tz: tzinfo | None = None) -> datetime:
    return _now(tz) + timedelta(seconds=_ahead_s())


def _wrong_utcnow(_kind: type) -> datetime:
    return _now() + timedelta(seconds=_ahead_s())


time.time, time.time_ns = _wrong_time, _wrong_time_ns
# A class that is written in C cannot be assigned to, but its dictionary can. It stays the class that all others know.
_members: dict[str, Any] = gc.get_referents(datetime.__dict__)[0]
_members.update(now=classmethod(_wrong_now), utcnow=classmethod(_wrong_utcnow))
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
