"""`manage.py reconcile [--chain C] [--all]`."""

import json
from dataclasses import dataclass, field
from typing import Any

from django.core.management.base import CommandError, CommandParser

from chains.port import ChainUnavailable
from foundation.commands import JsonCommand
from foundation.kernel.money import format_amount
from payments.funding.expected_holdings import Imbalance, books
from payments.funding.pools import Pool, read_pools
from payments.management.outflow_output import print_outflows
from payments.management.reconcile_output import (
    POOL_FORM,
    POOL_HEAD,
    ROW_FORM,
    ROW_HEAD,
    pool_cells,
    present_outflow,
    present_pool,
    present_row,
    row_cells,
)
from payments.models import Outflow, Reconciliation, Verdict
from payments.reconciling.outflow_booking import find_open_outflows
from payments.reconciling.reconciliation import check_balances, reconcile
from services.served_chains import read_chain, served_chains


@dataclass
class _Found:
    """The results of the comparisons. `not_compared`: the reason why not, by chain."""

    rows: list[Reconciliation] = field(default_factory=list)
    not_compared: dict[str, str] = field(default_factory=dict)
    pools: list[Pool] = field(default_factory=list)
    outflows: list[Outflow] = field(default_factory=list)
    imbalances: list[Imbalance] = field(default_factory=list)

    @property
    def is_alarm(self) -> bool:
        is_wrong = any(row.verdict == Verdict.MISSING or row.unconfirmed for row in self.rows)
        is_overdrawn = any(pool.is_overdrawn for pool in self.pools)
        return is_wrong or is_overdrawn or bool(self.not_compared or self.outflows or self.imbalances)


class Command(JsonCommand):
    help = (
        "Compare, per chain and asset, what the escrow holds with what the ledger says: deposits and credits by hand, "
        "less what was settled and what else has left. Holdings beyond that are surplus, which nobody was promised; "
        "below it, money is missing. Then, per asset over all chains, compare the promises (balances, payments in "
        "flight, deposits set aside, open withdrawals) with the holdings: if these are less, signing stops at once. "
        "Settled payments are checked against their receipts and the escrow, ten minutes after they were settled. The "
        "workers do the same every minute; it may be run at any time. Ends with status 1 if money is missing or too "
        "much is promised, if an outflow is not booked, if a payment is not confirmed, if the balances do not add up, "
        "or if a chain cannot be compared now."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--chain", metavar="CHAIN", help="Only this chain: an alias such as base, or CAIP-2.")
        parser.add_argument("--all", action="store_true", help="Add up and check every payment ever settled again.")

    def perform(self, **options: Any) -> dict[str, Any]:
        chain = None if options["chain"] is None else read_chain(options["chain"])
        found = _Found()
        self.stdout.write(ROW_FORM.format(*ROW_HEAD))
        for one in list(served_chains()) if chain is None else [chain]:
            self._compare(one, found, is_thorough=options["all"])
        found.imbalances = check_balances()
        found.outflows = list(find_open_outflows(chain))
        with books():
            found.pools = read_pools(None if chain is None else {row.asset for row in found.rows})
        self._print(found)
        result = _present(found)
        if found.is_alarm:
            self.stdout.write(json.dumps(result))
            raise CommandError("Not everything is accounted for.")
        return result

    def _compare(self, chain: str, found: _Found, *, is_thorough: bool) -> None:
        try:
            rows = reconcile(chain, served_chains()[chain], is_thorough=is_thorough)
        except ChainUnavailable as error:
            found.not_compared[chain] = str(error)
            return
        if not rows:
            found.not_compared[chain] = "The search of the escrow's history is behind the chain, or the nodes are."
        for row in rows:
            self.stdout.write(ROW_FORM.format(*row_cells(row)))
        found.rows += rows

    def _print(self, found: _Found) -> None:
        if found.pools:
            self.stdout.write("\n" + POOL_FORM.format(*POOL_HEAD))
        for pool in found.pools:
            self.stdout.write(POOL_FORM.format(*pool_cells(pool)))
        for chain, trouble in found.not_compared.items():
            self.stderr.write(f"{chain}: not compared. {trouble}")
        for pool in found.pools:
            if pool.is_overdrawn:
                self.stderr.write(str(pool))
        print_outflows(found.outflows, self.stderr.write)
        for row in found.rows:
            for payment_id in row.unconfirmed:
                self.stderr.write(f"{row.chain}: {payment_id} is settled, but the chain does not confirm it.")
        for one in found.imbalances:
            self.stderr.write(
                f"The balances in {one.asset} are {format_amount(one.balances)}; what came in, less what was spent, "
                f"is {format_amount(one.explained)}."
            )


def _present(found: _Found) -> dict[str, Any]:
    return {
        "comparisons": [present_row(row) for row in found.rows],
        "pools": [present_pool(pool) for pool in found.pools],
        "outflows": [present_outflow(outflow) for outflow in found.outflows],
        "notCompared": found.not_compared,
        "imbalances": {one.asset: format_amount(one.balances - one.explained) for one in found.imbalances},
    }
