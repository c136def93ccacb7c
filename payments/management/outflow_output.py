"""Print the outflows that are not booked."""

from collections.abc import Callable, Iterable

from chains.catalogue import alias_of
from payments.models import Outflow
from payments.reconciling.outflow_booking import describe


def print_outflows(outflows: Iterable[Outflow], tell: Callable[[str], object]) -> None:
    """Print a description of each outflow, and the command that books it."""
    for one in outflows:
        tell(f"{alias_of(one.chain)}: {one.tx} in block {one.block_number}: {describe(one)}")
        tell(f"  manage.py book_outflow {one.tx} --index {one.log_index} (--agent ID | --loss) --reason R")
