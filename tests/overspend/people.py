"""People who answer what is held, several at once, and workers in threads and processes that end it."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Any, Self

from django.conf import settings
from django.db import connection

from foundation.groups import in_each_group
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_holds
from tests.support.house import server_environment

_PEOPLE, _WORKERS, _PROCESSES = 3, 2, 2
_PAUSE_S = 0.05
# What was asked for longer ago is left to expire.
_RECENT = timedelta(minutes=30)


class People:
    """Answers and ends what some agents have held, until the block ends.

    `answers` counts each payment's answers, by its id: nobody may have more than one. `refused`: how many were refused
    because somebody else was faster.
    """

    def __init__(self, agents: Sequence[str], chance: Random) -> None:
        self.answers: Counter[str] = Counter()
        self.refused = 0
        self.failures: list[BaseException] = []
        self._agents = agents
        self._over = threading.Event()
        acts: list[Callable[[], Any]] = [self._person(chance) for _ in range(_PEOPLE)]
        acts += [lambda: in_each_group(lambda: finish_holds(payment_environment()))] * _WORKERS
        self._threads = [threading.Thread(target=self._repeat, args=(act,)) for act in acts]
        command = [sys.executable, "-m", "tests.support.finisher"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        self._processes = [
            subprocess.Popen(command, cwd=settings.BASE_DIR, env=server_environment(), **pipes)
            for _ in range(_PROCESSES)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.communicate()

    def _repeat(self, act: Callable[[], Any]) -> None:
        try:
            while not self._over.wait(_PAUSE_S):
                act()
        except Exception as error:  # noqa: BLE001 - whoever waits for the thread is told
            self.failures.append(error)
        finally:
            connection.close()

    def _person(self, chance: Random) -> Callable[[], None]:
        """Make a person, whose choices are those of the run's seed."""
        own = Random(chance.random())

        def answer_all() -> None:
            waiting = Hold.objects.filter(agent__in=self._agents, ended_at=None, created_at__gt=utc_now() - _RECENT)
            for payment_id in waiting.order_by("id").values_list("pk", flat=True):
                self._answer(payment_id, own.choice([HoldAnswer.APPROVE, HoldAnswer.APPROVE, HoldAnswer.DECLINE]))

        return answer_all

    def _answer(self, payment_id: str, answer: HoldAnswer) -> None:
        try:
            answer_hold(payment_id, answer, by="overspend test", reason="It was asked for.")
        except OperationRefused:
            self.refused += 1
        else:
            self.answers[payment_id] += 1
