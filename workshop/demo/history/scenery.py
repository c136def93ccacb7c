"""What waits for finance staff in a seeded installation: money set aside, an alarm, keys that expire."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Max

from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount
from ledger.models import BalanceMovement, MovementKind
from payments.funding.expected_holdings import SettledBefore, find_settled, read_expected_holdings, sum_of
from payments.models import ChainState, Deposit, DepositState, Outflow, Reconciliation, Withdrawal
from policy.key_operations import create_api_key
from policy.models import Agent
from workshop.demo.history.cast import ELSEWHERE, LOCAL, Stage
from workshop.demo.people import FIONA, OLGA

_NOWHERE = "0x00000000000000000000000000000000DeaDBeef"


def set_money_aside(stage: Stage, agents: Sequence[str], token: str) -> None:
    """Let deposits have come in that name no agent, or nearly one."""
    misspelt = f"{agents[0][:-2]}{agents[0][-1]}{agents[0][-2]}"
    wanted = ((misspelt, "250"), ("", "40"), ("acme-treasury", "1200.5"))
    Deposit.objects.bulk_create(
        Deposit(
            chain=LOCAL, tx=stage.new_tx(), log_index=0, block_number=1,
            depositor=stage.new_address(), token=token, asset=Asset.USDC, amount=Decimal(amount),
            named_agent=named, state=DepositState.ASIDE,
            note="There is no agent of this name." if named else "It names no agent.",
            found_at=stage.until - timedelta(hours=5 + 20 * number),
        )
        for number, (named, amount) in enumerate(wanted)
    )  # fmt: skip


def take_money_out(stage: Stage, agent_id: str) -> None:
    """Let an owner have withdrawn some money, and be about to withdraw more."""
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    for landed, amount in ((1, min(agent.balance / 20, Decimal(30))), (None, min(agent.balance / 40, Decimal(12)))):
        amount = amount.quantize(Decimal("0.01"))  # noqa: PLW2901 - as it is booked
        if not amount:
            continue
        agent.balance -= amount
        movement = BalanceMovement.objects.create(
            agent=agent, kind=MovementKind.WITHDRAWAL, amount=-amount, balance_after=agent.balance, chain=LOCAL,
            author=FIONA, reason="The customer takes some of it back.", created_at=stage.until,
        )  # fmt: skip
        Withdrawal.objects.create(
            reference=f"wd_{stage.chance.getrandbits(100):x}", chain=LOCAL, escrow="", asset=agent.asset, amount=amount,
            recipient=stage.new_address(), agent=agent, movement=movement, author=FIONA, reason=movement.reason,
            created_at=stage.until, landed_block=landed, landed_tx=stage.new_tx() if landed else "",
        )  # fmt: skip
    agent.save(update_fields=["balance"])


def raise_an_alarm(stage: Stage, now: datetime) -> None:
    """Let signing be stopped on a chain that is not served here any more, with an outflow that nobody has booked."""
    missing = Decimal("12.5")
    ChainState.objects.update_or_create(
        chain=ELSEWHERE,
        defaults={
            "state": {}, "observed_at": now - timedelta(hours=3), "stopped_at": now - timedelta(hours=2),
            "stopped_reason": f"{format_amount(missing)} USDC are missing from the escrow.",
        },
    )  # fmt: skip
    Reconciliation.objects.create(
        chain=ELSEWHERE, asset=Asset.USDC, block_number=38_000_000, holds=Decimal(4000) - missing, booked=4000,
        in_flight=0, drift=-missing, settled_total=0, created_at=now - timedelta(hours=2),
    )  # fmt: skip
    Outflow.objects.create(
        chain=ELSEWHERE, tx=stage.new_tx(), log_index=2, block_number=37_999_990, asset=Asset.USDC,
        amount=missing, recipient=_NOWHERE, why="It names no payment of ours.", found_at=now - timedelta(hours=2),
    )  # fmt: skip


def issue_keys(agents: Sequence[str], now: datetime) -> None:
    """Issue keys of several kinds; one expires soon, one has expired, one was revoked."""
    for number, agent_id in enumerate(agents[:6]):
        row, _ = create_api_key(by=OLGA, agent_id=agent_id, name=f"{agent_id} in production")
        row.created_at, row.last_used_at = now - timedelta(days=60), now - timedelta(minutes=5 + number)
        row.expires_at = {1: now + timedelta(days=3), 2: now - timedelta(days=1)}.get(number)
        row.revoked_at = now - timedelta(days=9) if number == 3 else None  # noqa: PLR2004 - the fourth
        row.save()


def compare_with_chain(settled_before: datetime, now: datetime) -> None:
    """Let the comparisons with the local chain begin behind the history, which never was on it.

    What the escrow holds stays as it was found last. Without an earlier comparison nothing is written.
    """
    newest = Reconciliation.objects.filter(chain=LOCAL).values("asset").annotate(newest=Max("pk")).values("newest")
    for row in Reconciliation.objects.filter(pk__in=newest):
        row.pk = None
        row.settled_until = max(row.settled_until or settled_before, settled_before)
        settled = find_settled(LOCAL, row.asset, None).filter(settled_at__lt=row.settled_until)
        row.settled_total = sum_of(*settled.values_list("amount", flat=True))
        before = SettledBefore(row.settled_until, row.settled_total)
        expected = read_expected_holdings(
            LOCAL, Asset(row.asset), row.block_number, escrow=row.escrow, settled_before=before
        )
        row.booked, row.in_flight, row.drift = expected.booked, expected.in_flight, row.holds - expected.booked
        row.created_at = now
        row.save(force_insert=True)
