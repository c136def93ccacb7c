"""Scenarios in which many ask at once."""

from decimal import Decimal

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


def counts_and_payees(stage: Stage) -> None:
    """Ask from many processes at once for more than each optional limit lets pass, also after web servers restarted."""
    kinds = (
        {"payments_per_hour": 7},
        {"payments_per_day": 7},
        {"hourly_limit": Decimal("7.99")},
        {"monthly_limit": Decimal("7.99")},
        {"total_limit": Decimal("7.99")},
        {"payee_daily_limit": Decimal("7.99")},
        {"payee_weekly_limit": Decimal("7.99")},
    )
    payers = [stage.payer(day="1000", wanted="7.00", **more) for more in kinds for _ in range(stage.world.size(2, 1))]
    first = stage.payer(day="1000", wanted="3.00", new_payee_payments=1000, new_payee_max_per_payment=Decimal("1.00"))
    shots = [payer.shot("1.00") for payer in payers for _ in range(stage.world.size(60, 24))]
    stage.strike([*shots, *(first.shot("1.00") for _ in range(3)), *(first.shot("1.01") for _ in range(20))])
    stage.insist()
    stage.repeat(stage.world.size(60, 12))
