"""`manage.py relayers [--chain C] [--disable ADDRESS | --enable ADDRESS]`."""

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser

from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand, add_reason
from payments.findings.relayers import find_short_relayers
from payments.settling.relayer_queue import RelayerQueue, read_relayer_queues
from payments.settling.relayers import switch_relayer
from services.served_chains import read_chain, served_chains

_HEAD = ("no.", "address", "gas money", "payments", "at most", "next", "mined", "waiting", "included", "drift", "")
_FORM = "{:>3}  {:<44}  {:>14}  {:>9}  {:>9}  {:>8}  {:>8}  {:>7}  {:>8}  {:>5}  {}"


class Command(JsonCommand):
    help = (
        "Show the relayers of every chain, or of one: gas money, for how many payments it lasts if each costs the "
        "most that it can at today's price, and at the highest that the settings allow; the next nonce here and the"
        " first that no block has used, how many transactions wait for a block or are in one that is not final, and"
        " the drift: by how many nonces these do not add up. The watcher repairs a drift: it fills open nonces and "
        "catches up with a chain that is ahead. Solana has no nonces. --disable takes a relayer out of rotation: it"
        " gets no new payments, those it has are followed to their end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--chain", metavar="CHAIN", help="Only this chain: an alias such as base, or CAIP-2.")
        switch = parser.add_mutually_exclusive_group()
        switch.add_argument("--disable", metavar="ADDRESS", help="Take this relayer out of rotation (on --chain).")
        switch.add_argument("--enable", metavar="ADDRESS", help="Put it back (on --chain).")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        chains = list(served_chains()) if options["chain"] is None else [read_chain(options["chain"])]
        if address := options["disable"] or options["enable"]:
            if len(chains) > 1:
                raise CommandError("Name the chain of the relayer with --chain.")
            is_enabled = options["enable"] is not None
            switch_relayer(chains[0], address, is_enabled=is_enabled, by=AUTHOR, reason=options["reason"])
        return {"relayers": [row for chain in chains for row in self._show(chain)]}

    def _show(self, chain: str) -> list[dict[str, Any]]:
        try:
            queues = read_relayer_queues(chain, served_chains()[chain])
        except ChainUnavailable as error:
            raise CommandError(f"{chain}: {error}") from error
        self.stdout.write(chain)
        self.stdout.write(_FORM.format(*_HEAD).rstrip())
        for queue in queues:
            relayer = queue.relayer
            self.stdout.write(
                _FORM.format(
                    relayer.number, relayer.address, f"{queue.balance:.6f}", f"{queue.payments_now:,}",
                    f"{queue.payments_at_highest:,}", _or_dash(relayer.next_nonce), _or_dash(queue.mined_nonce),
                    queue.waiting, queue.included, queue.drift, queue.remark,
                ).rstrip()
            )  # fmt: skip
        self.stdout.write(_sum_up(queues))
        for finding in find_short_relayers():
            if finding.subject == chain:
                self.stdout.write(f"{finding.says} {finding.mend}")
        return [_present(chain, queue) for queue in queues]


def _sum_up(queues: Sequence[RelayerQueue]) -> str:
    """Say for how many payments the gas money lasts, and what the relayers wait for if no worker has run yet."""
    paying = [queue for queue in queues if queue.has_key and queue.relayer.is_enabled]
    now, highest = (sum(getattr(queue, name) for queue in paying) for name in ("payments_now", "payments_at_highest"))
    lasts = f"Gas money for {now:,} payments at today's price, for {highest:,} at the highest."
    waiting = sum(not queue.is_seen for queue in queues)
    return f"{lasts} {waiting} wait for the watcher, which begins once a worker runs." if waiting else lasts


def _or_dash(nonce: int | None) -> str:
    return "-" if nonce is None else str(nonce)


def _present(chain: str, queue: RelayerQueue) -> dict[str, Any]:
    return {
        "chain": chain,
        "number": queue.relayer.number,
        "address": queue.relayer.address,
        "balance": f"{queue.balance:f}",
        "paymentsNow": queue.payments_now,
        "paymentsAtHighestPrice": queue.payments_at_highest,
        "nextNonce": queue.relayer.next_nonce,
        "minedNonce": queue.mined_nonce,
        "waiting": queue.waiting,
        "included": queue.included,
        "drift": queue.drift,
        "inRotation": queue.remark == "",
    }
