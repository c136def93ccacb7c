"""`manage.py chains`."""

import json
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from allowance.commands import JsonCommand
from allowance.kernel.money import format_amount
from allowance.kernel.times import format_instant, utc_now
from payments.chains.base import ChainUnavailable, Finality
from payments.chains.evm.adapter import EvmChain
from payments.chains.evm.findings import Contracts, Inspection, Token
from payments.chains.evm.inspection import read_chain_ids
from payments.chains.registry import evm_chain
from services.chains import ServedChain, Vm


class Command(JsonCommand):
    help = (
        "Show every chain that is served: what is configured, and what its nodes, its escrow and its tokens say. Ends "
        "with status 1 if a chain is not what is configured, or none of its nodes answers: nothing is paid there."
    )

    def perform(self, **options: Any) -> dict[str, Any]:
        served = [caip2 for caip2, one in settings.CHAINS.items() if one.chain.vm is Vm.EVM]
        result = {"chains": [self._show(evm_chain(caip2)) for caip2 in served]}
        bad = [chain["alias"] for chain in result["chains"] if chain["mismatches"]]
        if bad:
            self.stdout.write(json.dumps(result, ensure_ascii=False))
            raise CommandError(f"Nothing is paid on {', '.join(bad)}.")
        return result

    def _show(self, adapter: EvmChain) -> dict[str, Any]:
        chain = adapter.served.chain
        self.stdout.write(f"{chain.alias} ({chain.caip2}{', a test network' if chain.is_test else ''})")
        inspection, final, mismatches = _look(adapter)
        for name, text in (*_lines(adapter.served, inspection, final), ("verdict", " ".join(mismatches) or "matches")):
            self.stdout.write(f"  {name:<9} {text}")
        return {
            "chain": chain.caip2,
            "alias": chain.alias,
            "nodes": len(inspection.chain_ids),
            "nodesAnswering": _count(inspection),
            "finalBlock": final and final.block_number,
            "finalAt": final and format_instant(final.time),
            "escrow": inspection.expected.escrow,
            **_present(inspection.contracts),
            "mismatches": mismatches,
        }


def _look(adapter: EvmChain) -> tuple[Inspection, Finality | None, list[str]]:
    try:
        inspection = adapter.inspect()
    except ChainUnavailable as error:
        found = Inspection(adapter.expect(), read_chain_ids(adapter.single_nodes), None)
        return found, None, [str(error)]
    try:
        return inspection, adapter.find_finality(), inspection.find_mismatches()
    except ChainUnavailable as error:
        return inspection, None, [*inspection.find_mismatches(), str(error)]


def _lines(served: ServedChain, inspection: Inspection, final: Finality | None) -> Iterator[tuple[str, str]]:
    depth = served.finality_depth
    yield "nodes", f"{_count(inspection)} of {len(inspection.chain_ids)} answer"
    yield "finality", "the finalized tag" if depth is None else f"{depth} blocks deep"
    if final is not None:
        age_s = int((utc_now() - final.time).total_seconds())
        yield "final", f"block {final.block_number}, {age_s} s old"
    escrow, roles, contracts = inspection.expected.escrow, inspection.expected.roles, inspection.contracts
    if contracts is None:
        yield "escrow", escrow
        return
    yield "deposits", f"from block {served.first_block}"
    yield "escrow", f"{escrow}, owner {contracts.owner}, {'paused' if contracts.is_paused else 'not paused'}"
    if roles is not None:
        is_ours = contracts.policy_signer == roles.policy_signer
        yield "signer", f"{contracts.policy_signer}, {'ours' if is_ours else f'ours is {roles.policy_signer}'}"
        yield "relayers", f"{len(contracts.enabled_relayers)} of {len(roles.relayers)} enabled"
    for token in contracts.tokens:
        cap = "unknown" if token.daily_cap is None else format_amount(token.daily_cap)
        yield token.asset, f"{token.address}, {token.symbol}, {token.decimals} decimals, at most {cap} a day"


def _count(inspection: Inspection) -> int:
    return sum(chain_id is not None for chain_id in inspection.chain_ids)


def _present(contracts: Contracts | None) -> dict[str, Any]:
    if contracts is None:
        return {}
    return {
        "owner": contracts.owner,
        "paused": contracts.is_paused,
        "policySigner": contracts.policy_signer,
        "relayersEnabled": len(contracts.enabled_relayers),
        "tokens": [_present_token(token) for token in contracts.tokens],
    }


def _present_token(token: Token) -> dict[str, Any]:
    return {
        "asset": token.asset,
        "address": token.address,
        "symbol": token.symbol,
        "decimals": token.decimals,
        "dailyCap": None if token.daily_cap is None else format_amount(token.daily_cap),
    }
