"""Look at the gas money of the relayers, and for how many payments it lasts."""

from collections.abc import Iterator, Sequence

from django.conf import settings

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable
from operators.doctor.diagnoses import Diagnosis, diagnosis_of, error, ok, warning
from operators.doctor.looking import reading
from payments.findings.relayers import find_short_relayers
from payments.settling.relayer_queue import RelayerQueue, read_relayer_queues, well_funded_payments
from services.served_chains import make_chain


def find_gas_money() -> Iterator[Diagnosis]:
    """Say whose relayers are short, and ask each chain for how many payments at today's price its relayers have."""
    with reading():
        short = [diagnosis_of(finding) for finding in find_short_relayers()]
    yield from short
    for caip2, served in settings.CHAINS.items():
        subject = f"{served.chain.alias}, gas money"
        try:
            with reading():
                queues = read_relayer_queues(caip2, make_chain(caip2))
        except ChainUnavailable as trouble:
            yield error(subject, f"It cannot be looked at: {trouble}", "See what is wrong with its nodes")
            continue
        ours = [queue for queue in queues if queue.relayer.is_enabled and queue.has_key]
        payments = sum(queue.payments_now for queue in ours)
        yield ok(subject, f"{len(ours)} relayers have enough for {payments:,} payments at today's price.")
        yield from _of_relayers(served, [queue for queue in ours if queue.is_seen])


def _of_relayers(served: ServedChain, queues: Sequence[RelayerQueue]) -> Iterator[Diagnosis]:
    alias, coin = served.chain.alias, served.chain.coin
    are_all = all(queue.remark for queue in queues)
    for queue in queues:
        lasts = f"It has {queue.balance:.6f} {coin}, for {queue.payments_now:,} payments at today's price"
        mend = f"Send some {coin} to {queue.relayer.address} on {alias}; python manage.py relayers"
        subject = f"{alias}, relayer {queue.relayer.number}"
        if queue.payments_now < 1:
            yield error(subject, f"{lasts}: it is empty, and its transactions that wait cannot be replaced.", mend)
        elif queue.remark:
            found = error if are_all else warning
            yield found(subject, f"{lasts}, and is out of rotation: {queue.remark}.", mend)
        elif queue.relayer.is_funded and queue.payments_now < well_funded_payments():
            yield warning(subject, f"{lasts}, and is soon out of rotation.", mend)
