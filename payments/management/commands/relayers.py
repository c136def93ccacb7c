"""`manage.py relayers [--chain C] [--disable ADDRESS | --enable ADDRESS]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from allowance.commands import AUTHOR, JsonCommand, add_reason
from chains.port import ChainUnavailable
from payments.management.chain_option import read_chain
from payments.settling.relayer_queue import RelayerQueue, read_relayer_queues
from payments.settling.relayers import switch_relayer
from services.served_chains import served_chains

_HEAD = ("no.", "address", "gas money", "next", "mined", "waiting", "included", "drift", "")
_FORM = "{:>3}  {:<44}  {:>14}  {:>8}  {:>8}  {:>7}  {:>8}  {:>5}  {}"


class Command(JsonCommand):
    help = (
        "Show the relayers of every chain, or of one: gas money, the next nonce here and the first that no block has "
        "used, how many transactions wait for a block or are in one that is not final, and the drift: by how many "
        "nonces these do not add up. The watcher repairs a drift: it fills open nonces and catches up with a chain "
        "that is ahead. Solana has no nonces. --disable takes a relayer out of rotation: it gets no new payments, "
        "those it has are followed to their end."
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
        self.stdout.write(_FORM.format(*_HEAD))
        for queue in queues:
            relayer = queue.relayer
            self.stdout.write(
                _FORM.format(
                    relayer.number, relayer.address, f"{queue.balance:.6f}", _or_dash(relayer.next_nonce),
                    _or_dash(queue.mined_nonce), queue.waiting, queue.included, queue.drift, queue.remark,
                )
            )  # fmt: skip
        return [_present(chain, queue) for queue in queues]


def _or_dash(nonce: int | None) -> str:
    return "-" if nonce is None else str(nonce)


def _present(chain: str, queue: RelayerQueue) -> dict[str, Any]:
    return {
        "chain": chain,
        "number": queue.relayer.number,
        "address": queue.relayer.address,
        "balance": f"{queue.balance:f}",
        "nextNonce": queue.relayer.next_nonce,
        "minedNonce": queue.mined_nonce,
        "waiting": queue.waiting,
        "included": queue.included,
        "drift": queue.drift,
        "inRotation": queue.remark == "",
    }
