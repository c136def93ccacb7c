"""`manage.py catch_up [--chain C]`."""

from typing import Any

from django.core.management.base import CommandParser

from chains.port import ChainAdapter, ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand
from foundation.groups import copy_here, in_reachable_groups
from foundation.kernel.errors import OperationRefused
from payments.models import ChainState, DepositCursor, Outflow
from payments.reconciling.escrow_history import is_known, search_history
from payments.reconciling.our_escrow import was_searched
from payments.settling.chain_switch import LONG_AGO
from payments.settling.relayers import find_rotation
from services.served_chains import make_chain, read_chain, served_chains
from staff.audit import record


class Command(JsonCommand):
    help = (
        "Compare the history of each escrow with the ledger, from where the ledger was last up to the newest block: "
        "credit deposits, end payments that the chain has made or voided. An event that the ledger does not know "
        "stops signing there at once; `reconcile` lists it, `book_outflow` books it. Run it after a backup was "
        "restored, before anything is served; every release and every worker does so by itself. First each escrow is "
        "asked whether it is ours: its code, version, policy signer, relayers and first block, or on Solana its "
        "signers; if one is not, nothing is searched and the release fails. A chain whose nodes "
        "do not answer is skipped, and nothing is paid there until a worker has compared it; the release fails if its "
        "escrow was never seen before."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--chain", metavar="CHAIN", help="Only this chain: an alias such as base, or CAIP-2.")

    def perform(self, **options: Any) -> dict[str, Any]:
        chains = list(served_chains()) if options["chain"] is None else [read_chain(options["chain"])]
        adapters = {chain: make_chain(chain) for chain in chains}
        foreign = [
            f"{chain}: {sentence}"
            for chain, adapter in adapters.items()
            for sentence in self._find_foreign(chain, adapter)
        ]
        if foreign:
            raise OperationRefused(
                "Nothing was searched, and nothing can be paid: a chain or an escrow is not what the settings say. "
                + " ".join(foreign)
            )
        found = [self._catch_up(chain, adapter) for chain, adapter in adapters.items()]
        if unseen := [chain for chain, adapter in adapters.items() if not was_searched(chain, adapter)]:
            raise OperationRefused(
                f"Nobody has seen yet whether the escrow is ours on {', '.join(unseen)}, and its nodes do not answer "
                "now: run it again once they do."
            )
        return {"chains": found}

    def _find_foreign(self, chain: str, adapter: ChainAdapter) -> list[str]:
        try:
            return adapter.inspector.find_foreign(find_rotation(chain, adapter))
        except ChainUnavailable:
            return []  # the search says so

    def _catch_up(self, chain: str, adapter: ChainAdapter) -> dict[str, Any]:
        trouble, new = "", 0
        try:
            new = self._search(chain, adapter)
        except ChainUnavailable as error:
            trouble = str(error)
            self.stderr.write(f"{chain}: not compared, so nothing is paid there yet. {error}")
        unknown = Outflow.objects.filter(chain=chain, booked_at=None)
        for one in unknown:
            self.stderr.write(f"{chain}: {one.tx}: {one.why}")
        if unknown:
            # A backup has forgotten nonces, too, and may be young enough to count as fresh: a worker looks anew first.
            ChainState.objects.filter(chain=chain).update(observed_at=LONG_AGO)
            in_reachable_groups(lambda: copy_here(ChainState, chain))
        state = ChainState.objects.filter(chain=chain).first()
        found = {
            "block": _reached(chain),
            "newDeposits": new,
            "unknown": unknown.count(),
            "stoppedReason": state.stopped_reason if state else "",
            "trouble": trouble,
        }
        record("chain.caught_up", subject_type="chain", subject=chain, by=AUTHOR, after=found)
        return {"chain": chain, **found}

    def _search(self, chain: str, adapter: ChainAdapter) -> int:
        """Search a chain's history until it is known; returns how many deposits were new."""
        # The first search is made however fresh the database's own record is.
        new, reached = search_history(chain, adapter), None
        while not is_known(chain, adapter):
            if reached == _reached(chain):
                raise ChainUnavailable("The nodes are behind, or too few of them answer.")
            reached = _reached(chain)
            self.stderr.write(f"{chain}: searched up to block {reached} ...")
            new += search_history(chain, adapter)
        return new


def _reached(chain: str) -> int | None:
    cursor = DepositCursor.objects.filter(chain=chain).first()
    return cursor.block_number if cursor else None
