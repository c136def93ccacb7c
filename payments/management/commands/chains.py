"""`manage.py chains`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chains.catalogue import ServedChain, Vm
from chains.port import ChainUnavailable, Finality
from foundation.commands import JsonCommand
from foundation.findings import Finding
from foundation.kernel.times import format_instant, utc_now
from payments.findings.chains import find_lying_nodes, find_troubles_of_chains, of_assets
from payments.settling.relayers import find_rotation
from services.served_chains import make_chain

_OWNER = "manage.py owner_calls {alias} prints what the escrow's owner may have to call, ready for a Safe"


class Command(JsonCommand):
    help = (
        "Show every served chain: its configuration, what its nodes, its escrow and its tokens say, and on Solana "
        "where each asset is deposited. An asset that is missing there is out of service by itself (out). What else is "
        "known to be wrong there stands beside it, as the console and the doctor have it (found). Ends with "
        "status 1 if a chain does not match its configuration, or none of its nodes answers: nothing is paid there."
    )

    def perform(self, **options: Any) -> dict[str, Any]:
        findings = [*find_troubles_of_chains(), *find_lying_nodes()]
        result = {"chains": [self._show(caip2, findings) for caip2 in settings.CHAINS]}
        bad = [chain["alias"] for chain in result["chains"] if chain["mismatches"]]
        if bad:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            raise CommandError(f"Nothing is paid on {', '.join(bad)}.")
        return result

    def _show(self, caip2: str, findings: Sequence[Finding]) -> dict[str, Any]:
        adapter = make_chain(caip2)
        served, chain = adapter.served, adapter.served.chain
        self.stdout.write(f"{chain.alias} ({caip2}{', a test network' if chain.is_test else ''})")
        inspection = adapter.inspector.inspect(find_rotation(caip2, adapter))
        final, mismatches, out = None, [], {}
        try:
            mismatches = inspection.find_mismatches()
            final = adapter.follower.find_finality()
            out = _find_out_of_service(served, adapter.observer.observe())
        except ChainUnavailable as error:
            mismatches.append(str(error))
        lines = (
            ("nodes", f"{inspection.answering} of {inspection.node_count} answer"),
            *_finality_lines(served, final),
            *inspection.describe(),
            *([("out", _say_what_is_out(served, out))] if out else []),
            *(("found", f"{one.says} {one.mend}") for one in findings if one.subject == caip2),
            *([("owner", _OWNER.format(alias=chain.alias))] if chain.vm is Vm.EVM and (mismatches or out) else []),
            ("verdict", " ".join(mismatches) or (f"matches, without {', '.join(out)}" if out else "matches")),
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
            "outOfService": out,
            "mismatches": mismatches,
        }


def _find_out_of_service(served: ServedChain, state: Mapping[str, Any]) -> dict[str, str]:
    """Find the assets that are not paid with, with the reason of each, as far as enough nodes agree."""
    objections = {asset.value: served.find_objection(asset, state) for asset in served.tokens}
    return {asset: objection for asset, objection in objections.items() if objection}


def _say_what_is_out(served: ServedChain, out: Mapping[str, str]) -> str:
    return of_assets(served.chain.caip2, [*out.values()], is_paying=len(out) < len(served.tokens)).says


def _finality_lines(served: ServedChain, final: Finality | None) -> Iterator[tuple[str, str]]:
    depth = served.finality_depth
    yield "finality", "what nodes call finalized" if depth is None else f"{depth} blocks deep"
    if final is not None:
        age_s = max(0, int((utc_now() - final.time).total_seconds()))
        yield "final", f"block {final.block_number}, {age_s} s old"
    yield "deposits", f"from block {served.first_block}"
