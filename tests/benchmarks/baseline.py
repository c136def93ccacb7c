"""What PostgreSQL alone does: pgbench calls the function of `baseline.sql`, which writes a payment's rows."""

import re
import subprocess
import tempfile

from django.db import connection

from payments.models import Relayer
from workshop.localnet import postgres

_RELAYERS = range(2000, 2016)  # their numbers; out of rotation, so that the product's queues stay even


def make_relayers() -> None:
    """Make what pgbench's payments need beside agents: relayers, as many as the product has."""
    Relayer.objects.bulk_create(
        Relayer(chain="eip155:31337", number=number, address=f"0x{number:040x}", is_enabled=False)
        for number in _RELAYERS
    )


def pgbench(connections: int, seconds: int, service: str, agents: int) -> float:
    """Write the rows of payments by so many agents, as fast as PostgreSQL takes them; returns payments per second."""
    settings = connection.settings_dict
    # Agents of its own, so that the log of those that pay over HTTP stays what it is.
    script = (
        f"\\set agent random(1, {agents})\n\\set relayer {_RELAYERS.start} + :client_id % {len(_RELAYERS)}\n"
        f"SELECT bench_write_payment('baseline-' || :agent, '{service}',"
        " (SELECT id FROM payments_relayer WHERE chain = 'eip155:31337' AND number = :relayer));\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        output = subprocess.run(
            [
                postgres.binary("pgbench"), "--no-vacuum", "--file", file.name, "--client", str(connections),
                "--jobs", "2", "--time", str(seconds), "--protocol", "prepared",
                "--host", settings["HOST"], "--port", str(settings["PORT"] or 5432), "--username", settings["USER"],
                settings["NAME"],
            ],
            check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip
    found = re.search(r"tps = ([0-9.]+) \(without", output)
    if found is None:
        raise RuntimeError(output)
    return float(found[1])
