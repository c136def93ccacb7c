"""Live through a history: what agents ask for is decided in the order of time, and what else happens comes between."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice
from operator import itemgetter

from django.db import transaction

from backoffice.rollups import forget_totals
from payments.deciding.batching import MOST_TOGETHER
from payments.deciding.requests import PaymentRequest
from payments.settling.transaction_rows import TransactionRow
from workshop.demo.history.agents import deposit_for, find_agent_acts, tighten
from workshop.demo.history.cast import CHAINS, ELSEWHERE, Act, AgentPlan, Payee, Stage
from workshop.demo.history.money_path import broadcast, decide, finish, give_back, looking_back, past_environment
from workshop.demo.history.payees import find_payee_acts
from workshop.demo.history.requests import make_requests
from workshop.demo.history.webhooks import deliver

# What is asked for within it is decided together, as of its beginning.
_TOGETHER = timedelta(minutes=1)
# Others wait so long for a relayer: about half a second.
_BATCHES_A_TRANSACTION = 50
_UNSETTLED_FOR = timedelta(days=2)
# Of the payments on the chain that is not served any more, one in so many fails.
_FAILS, _FAILS_AFTER_S = 15, (960, 1500)
Report = Callable[[int], None]
_Asked = tuple[datetime, PaymentRequest]


class History:
    """A history while it is made. What is still to be done about payees, agents and payments waits for its moment."""

    def __init__(
        self, stage: Stage, payees: Sequence[Payee], plans: Sequence[AgentPlan], tokens: dict[str, str]
    ) -> None:
        self._stage, self._payees, self._plans = stage, payees, {plan.id: plan for plan in plans}
        self._environment, self._tokens = past_environment(CHAINS), tokens
        self._acts: list[tuple[datetime, int, Callable[..., object]]] = []
        self._numbers, self._elsewhere = count(), count(1)
        for act in (*find_payee_acts(stage, payees), *(one for plan in plans for one in find_agent_acts(plan))):
            self._await(act)

    def play(self, report: Report) -> None:
        """Live through it, in transactions of some batches each."""
        stage, plans = self._stage, self._plans.values()
        asked = heapq.merge(*(make_requests(plan, stage.until) for plan in plans), key=itemgetter(0))
        batches, done = _in_batches(asked), 0
        while part := list(islice(batches, _BATCHES_A_TRANSACTION)):
            with looking_back(CHAINS, _moment(part[0])):
                for batch in part:
                    self._act_until(_moment(batch))
                    self._pay(_moment(batch), [request for _, request in batch])
                deliver(self._payees, stage)
                forget_totals()
            done += sum(map(len, part))
            report(done)
        with transaction.atomic():
            self._act_until(stage.until)
            for plan in plans:
                if plan.is_near_its_limit:
                    tighten(plan, stage.until)

    def _await(self, act: Act) -> None:
        at, do = act
        heapq.heappush(self._acts, (at, next(self._numbers), do))

    def _act_until(self, at: datetime) -> None:
        while self._acts and self._acts[0][0] <= at:
            moment, _, do = heapq.heappop(self._acts)
            do(now=moment)

    def _pay(self, at: datetime, requests: Sequence[PaymentRequest]) -> None:
        askers = dict.fromkeys(request.agent_id for request in requests)
        deposit_for([self._plans[agent_id] for agent_id in askers], at, self._stage, self._tokens)
        entries = decide(requests, self._environment, at)
        rows = broadcast([entry.payment_id for entry in entries if entry.payment_id is not None], at)
        finish([row for row in rows if not self._hangs(row, at)], at)

    def _hangs(self, row: TransactionRow, at: datetime) -> bool:
        """Tell whether a transaction is not included for now: there are no news of it, or it will fail."""
        if row.chain != ELSEWHERE or at > self._stage.until - _UNSETTLED_FOR:
            return row.chain == ELSEWHERE
        if fails := next(self._elsewhere) % _FAILS == 0:
            after_s = round(self._stage.chance.uniform(*_FAILS_AFTER_S), 3)
            self._await((at + timedelta(seconds=after_s), partial(give_back, row.legs[0].payment_id)))
        return fails


def _in_batches(asked: Iterable[_Asked]) -> Iterator[list[_Asked]]:
    """Put together what is asked for at nearly the same time."""
    batch: list[_Asked] = []
    for one in asked:
        if batch and (one[0] - _moment(batch) >= _TOGETHER or len(batch) == MOST_TOGETHER):
            yield batch
            batch = []
        batch.append(one)
    yield batch


def _moment(batch: Sequence[_Asked]) -> datetime:
    """Return the moment as of which a batch is decided."""
    return batch[0][0]
