"""What waits for finance staff in a seeded installation: money set aside, an alarm, keys that expire."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal

from django.conf import settings
from django.db.models import Max

from chains.port import DepositEvent
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount
from payments.funding.deposits import mark_landed, record_deposits
from payments.funding.expected_holdings import SettledBefore, find_settled, read_expected_holdings, sum_of
from payments.funding.withdrawals import book_withdrawal
from payments.models import ChainState, Outflow, Reconciliation
from policy.key_operations import create_api_key
from policy.models import Agent
from workshop.demo.history.cast import ELSEWHERE, LOCAL, Stage
from workshop.demo.people import FIONA, OLGA

_CENT = Decimal("0.01")
_NOWHERE = "0x00000000000000000000000000000000DeaDBeef"


def set_money_aside(stage: Stage, agents: Sequence[str], token: str) -> None:
    """Let deposits have come in that name no agent, or nearly one."""
    misspelt = f"{agents[0][:-2]}{agents[0][-1]}{agents[0][-2]}"
    for number, (named, amount) in enumerate(((misspelt, "250"), ("", "40"), ("acme-treasury", "1200.5"))):
        found = DepositEvent(
            stage.new_tx(), 0, 1, stage.new_address(), token, Asset.USDC, Decimal(amount), named
        )  # fmt: skip
        record_deposits(LOCAL, [found], {}, now=stage.until - timedelta(hours=5 + 20 * number))


def take_money_out(stage: Stage, agent_id: str) -> None:
    """Let an owner have withdrawn some money, and be about to withdraw more; only where the chain is served."""
    balance = Agent.objects.get(pk=agent_id).balance
    for has_landed, amount in ((True, min(balance / 20, Decimal(30))), (False, min(balance / 40, Decimal(12)))):
        if LOCAL not in settings.CHAINS or amount < _CENT:
            continue
        booked = book_withdrawal(
            agent_id, amount=amount.quantize(_CENT, ROUND_DOWN), chain=LOCAL, recipient=stage.new_address(), by=FIONA,
            reason="The customer takes some of it back.",
        )  # fmt: skip
        if has_landed:
            mark_landed(booked, stage.new_tx(), 1)


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
