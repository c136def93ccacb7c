"""`manage.py pause_agent ID [--reason R]`: see `change agent.pause`."""

from ledger.serializers import present_budget
from staff.commands import OfKind


class Command(OfKind):
    help = "Pause an agent: once this returns, none of its payments is approved. Prints its budget."
    kind = "agent.pause"
    show = staticmethod(present_budget)
