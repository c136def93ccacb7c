"""`manage.py chains`."""

import json
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from allowance.commands import JsonCommand
from allowance.kernel.times import format_instant, utc_now
from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Finality
from payments.settling.relayers import find_rotation
from services.served_chains import make_chain


class Command(JsonCommand):
    help = (
        "Show every served chain: its configuration, what its nodes, its escrow and its tokens say, and on Solana "
        "where each asset is deposited. Ends with status 1 if a chain does not match its configuration, or none of its "
        "nodes answers: nothing is paid there."
    )

    def perform(self, **options: Any) -> dict[str, Any]:
        result = {"chains": [self._show(caip2) for caip2 in settings.CHAINS]}
        bad = [chain["alias"] for chain in result["chains"] if chain["mismatches"]]
        if bad:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            raise CommandError(f"Nothing is paid on {', '.join(bad)}.")
        return result

    def _show(self, caip2: str) -> dict[str, Any]:
        adapter = make_chain(caip2)
        served, chain = adapter.served, adapter.served.chain
        self.stdout.write(f"{chain.alias} ({caip2}{', a test network' if chain.is_test else ''})")
        inspection = adapter.inspect(find_rotation(caip2, adapter))
        final, mismatches = None, []
        try:
            mismatches = inspection.find_mismatches()
            final = adapter.find_finality()
        except ChainUnavailable as error:
            mismatches.append(str(error))
        lines = (
            ("nodes", f"{inspection.answering} of {inspection.node_count} answer"),
            *_finality_lines(served, final),
            *inspection.describe(),
            ("verdict", " ".join(mismatches) or "matches"),
        )
        for name, text in lines:
            self.stdout.write(f"  {name:<9} {text}")
        return {
            "chain": caip2,
            "alias": chain.alias,
            "nodes": inspection.node_count,
            "nodesAnswering": inspection.answering,
            "finalBlock": final and final.block_number,
            "finalAt": final and format_instant(final.time),
            **inspection.as_json(),
            "mismatches": mismatches,
        }


def _finality_lines(served: ServedChain, final: Finality | None) -> Iterator[tuple[str, str]]:
    depth = served.finality_depth
    yield "finality", "what nodes call finalized" if depth is None else f"{depth} blocks deep"
    if final is not None:
        age_s = max(0, int((utc_now() - final.time).total_seconds()))
        yield "final", f"block {final.block_number}, {age_s} s old"
    yield "deposits", f"from block {served.first_block}"
