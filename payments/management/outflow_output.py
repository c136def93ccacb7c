"""Print outflows, each with the command that books it, and what is to be booked of many at once."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from chains.catalogue import alias_of
from foundation.kernel.money import EXACT, format_amount
from payments.models import Outflow
from payments.reconciling.outflow_booking import describe
from payments.reconciling.outflow_lists import Booking, Plan

_SUMS = "{:>8}  {:>18} {:<6}  {:<32}  {:>7}  {}"
_HEAD = ("outflows", "sum", "", "of", "proven", "the others on the word of")
_MOST_NAMED = 20
_ALL = "  manage.py book_outflow --all [--from FILE …] --reason R books all whose agents are known."
Tell = Callable[[str], object]


def print_outflows(outflows: Sequence[Outflow], tell: Tell) -> None:
    """Print a description of each outflow, and the command that books it."""
    for one in outflows:
        tell(f"{alias_of(one.chain)}: {one.tx} in block {one.block_number}: {describe(one)}")
        tell(f"  manage.py book_outflow {one.tx} --index {one.log_index} (--agent ID | --loss) --reason R")
    if len(outflows) > 1:
        tell(_ALL)


def print_plan(plan: Plan, tell: Tell) -> None:
    """Print what is to be booked, summed up by agents, and what is not, and why."""
    if plan.bookings:
        tell(_SUMS.format(*_HEAD))
    for (agent_id, asset), found in _by_owner(plan.bookings):
        told = [one.owner for one in found if not one.owner.is_proven]
        sources = ", ".join(sorted({one.place.rpartition(", line")[0] or one.place for one in told}))
        whose = agent_id or "nobody: no balance falls"
        tell(_SUMS.format(len(found), _sum(found), asset, whose, len(found) - len(told), sources or "-"))
    for one, why in plan.left[:_MOST_NAMED]:
        tell(f"Not booked: {alias_of(one.chain)}, {one}: {describe(one)} {why}")
    if len(plan.left) > _MOST_NAMED:
        tell(f"Not booked either: {len(plan.left) - _MOST_NAMED} more. The last line has all.")
    if not plan.bookings:
        tell("There is nothing that can be booked.")


def present_sums(plan: Plan) -> list[dict[str, Any]]:
    """Write what was to be booked as JSON, summed up by agents."""
    return [
        {
            "agent": agent_id or None,
            "outflows": len(found),
            "proven": sum(one.owner.is_proven for one in found),
            "amount": _sum(found),
            "asset": asset or None,
        }
        for (agent_id, asset), found in _by_owner(plan.bookings)
    ]


def present_outflow(outflow: Outflow, **more: Any) -> dict[str, Any]:
    """Write an outflow as JSON, with what became of it."""
    return {
        "tx": outflow.tx,
        "index": outflow.log_index,
        "chain": outflow.chain,
        "amount": format_amount(outflow.amount),
        "asset": outflow.asset,
        **more,
    }


def _by_owner(bookings: Iterable[Booking]) -> Iterator[tuple[tuple[str, str], list[Booking]]]:
    found = defaultdict(list)
    for one in bookings:
        found[one.owner.agent_id, one.outflow.asset or one.outflow.token].append(one)
    yield from sorted(found.items())


def _sum(bookings: Iterable[Booking]) -> str:
    total = Decimal(0)
    for one in bookings:
        total = EXACT.add(total, one.outflow.amount)
    return format_amount(total)
