"""Scenarios in which many ask at once."""

from tests.overspend.evidence import Kind
from tests.overspend.stage import Stage
from tests.support.storms import Shot


def ten_processes(stage: Stage) -> None:
    """Let ten web processes on five ports decide about the same agents at once."""
    payers = [stage.payer(day="12.34", wanted="12.21") for _ in range(stage.world.size(6, 2))]
    stage.strike([payer.shot("0.37") for payer in payers for _ in range(stage.world.size(200, 60))])
    stage.insist()
    stage.repeat(stage.world.size(100, 20))


def parallel_payments(stage: Stage) -> None:
    """Ask fifty times at once for 0.99 where 1.00 is allowed: by the day, by the week, by the balance."""
    payers = []
    for _ in range(stage.world.size(8, 1)):
        payers += [
            stage.payer(day="1.00", wanted="0.99"),
            stage.payer(day="1000", week="1.00", wanted="0.99"),
            stage.payer(day="1000", balance="1.00", wanted="0.99"),
        ]
    stage.strike([payer.shot("0.99") for payer in payers for _ in range(50)])
    stage.insist()


def duplicate_keys(stage: Stage) -> None:
    """Send each key many times at once; and half of the keys with another body, too."""
    count = stage.world.size(40, 10)
    payer = stage.payer(day=str(2 * count))
    shots: list[Shot] = []
    for number in range(count):
        first = payer.shot("1.00")
        shots += [first] * stage.world.size(20, 8)
        if number % 2:
            shots += [payer.shot("2.00", key=first.idempotency_key)] * stage.world.size(10, 4)
    stage.strike(shots)
    stage.insist()
    stage.expect(any(told.is_conflict for told in stage.told), "No key met a payload of another.")
    approved = {(told.key, told.amount) for told in stage.told if told.is_approved}
    for told in stage.told:
        if told.is_conflict and (told.key, told.amount) in approved:
            stage.complain(Kind.DOUBLED, f"{told}: it was approved as well.")
