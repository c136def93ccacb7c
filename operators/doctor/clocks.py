"""Compare the clocks: this machine's, the database's and Redis'. Those of the chains are looked at with their nodes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from foundation.kernel.times import LARGEST_SKEW, utc_now
from foundation.redis_client import open_redis
from ledger.clocks import Reading, find_ahead, read_clocks
from operators.doctor.broker import PATIENCE_S
from operators.doctor.diagnoses import Diagnosis, error, ok

_MEND = "Let time be kept on every machine: systemctl enable --now chrony (or systemd-timesyncd)"


def find_database_clock() -> Iterator[Diagnosis]:
    """Compare the database's clock with this machine's."""
    yield _compare("database", read_clocks().skew, "nothing is decided or settled from here: payments get 503")


def find_redis_clock() -> Iterator[Diagnosis]:
    """Compare Redis' clock with this machine's: keys there live by it."""
    client: Any = open_redis(PATIENCE_S)
    client.ping()
    before = utc_now()
    seconds, microseconds = client.time()
    there = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)
    skew = Reading(before, there, utc_now()).skew
    yield _compare("Redis", skew, "messages of its log and ages of its keys cannot be believed")


def find_agents_ahead() -> Iterator[Diagnosis]:
    """Find agents whose log is dated in the future because a clock had jumped."""
    reading = read_clocks()
    agents = list(find_ahead(reading.database)[:20])
    for agent in agents:
        dated = f"{agent.last_entry_at:%Y-%m-%d %H:%M:%S} UTC"
        says = f"Its last entry is dated {dated}, in the future: its payments get 503."
        yield error(
            str(agent), says, f"python manage.py clocks --repair {agent} --reason '…', once the clocks are right"
        )
    if not agents:
        yield ok("agents", "No agent's log is dated in the future.")


def _compare(whose: str, skew: timedelta, consequence: str) -> Diagnosis:
    seconds = skew.total_seconds()
    if abs(skew) <= LARGEST_SKEW:
        return ok(whose, f"Its clock and this machine's differ by {abs(seconds):.1f} s at least.")
    where = "ahead of" if seconds > 0 else "behind"
    says = f"Its clock is {abs(seconds):.0f} s {where} this machine's: {consequence}."
    return error(whose, says, f"{_MEND}; then python manage.py clocks")
