"""What all scenarios share: PostgreSQL, Redis, a chain, and ten web processes."""

import io
import os
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.core.management import call_command
from django.db import connections

from payments.tasks import observe_chain
from policy.operations import switch_signer
from tests.crash.installation import Installation
from tests.overspend.wrong_databases import make_wrong
from tests.support.localnets import EVM
from tests.support.run_of_its_own import CLUSTER
from tests.support.servers import Servers

# Of two processes each.
_PORTS = 5


@dataclass(frozen=True, slots=True)
class World:
    """One run. `fleet` are the web servers that a scenario uses unless it needs others."""

    installation: Installation
    fleet: Servers
    chance: random.Random
    folder: Path
    is_short: bool

    def servers(self, *variables: Mapping[str, str]) -> Servers:
        """Have web servers of one's own, each with further variables in its environment."""
        return Servers(variables=variables, logs=_new_logs(self.folder))

    def size(self, full: int, short: int) -> int:
        """Choose how much of something there is."""
        return short if self.is_short else full


@contextmanager
def make_world(seed: int, folder: Path, *, is_short: bool) -> Iterator[World]:
    """Bring everything up, and end it behind the block."""
    call_command("migrate", interactive=False, verbosity=0)
    is_cluster = CLUSTER in os.environ
    if is_cluster:
        call_command("distribute", stdout=io.StringIO(), stderr=io.StringIO())
        connections.close_all()
    switch_signer(is_signing=True, by="overspend test")
    EVM.begin()
    observe_chain(EVM.caip2)
    installation = Installation({})
    if not is_cluster:
        make_wrong(installation)
    with Servers(_PORTS, logs=_new_logs(folder)) as fleet:
        yield World(installation, fleet, random.Random(seed), folder, is_short)


def _new_logs(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix="logs-", dir=folder))
