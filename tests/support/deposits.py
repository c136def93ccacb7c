"""Deposits that a fake chain tells of."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from eth_utils.crypto import keccak

from chains.port import DepositEvent
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import Deposit, DepositCursor
from payments.reconciling.escrow_history import search_history
from policy.models import Agent
from tests.support.factories import new_name
from tests.support.fake_chain import FakeChain, make_fake_chain

DEPOSITOR = "0x" + "4" * 40
TOKEN = "0x" + "5" * 40

FindOurPayments = Callable[[Sequence[str]], set[str]]


def sighting(agent: Agent | str, amount: str = "5", **changes: Any) -> DepositEvent:
    """Make what a chain tells of one deposit."""
    found = DepositEvent(
        tx="0x" + keccak(text=new_name("tx")).hex(),
        log_index=0,
        block_number=50,
        depositor=DEPOSITOR,
        token=TOKEN,
        asset=Asset.USDC,
        amount=Decimal(amount),
        named_agent=agent if isinstance(agent, str) else agent.id,
    )
    return replace(found, **changes)


def none_of_ours(txs: Sequence[str]) -> set[str]:
    """Say that none of these transactions is a payment of ours."""
    return set()


def make_searched_chain(*deposits: DepositEvent, up_to: int = 0) -> FakeChain:
    """Make a chain whose newest final block is 100, and that was searched before up to a block."""
    chain = make_fake_chain()
    chain.deposits += deposits
    DepositCursor.objects.create(chain=chain.name, block_number=up_to, moved_at=utc_now())
    return chain


def make_deposit_aside(named_agent: str = "nobody", amount: str = "7", asset: Asset | None = Asset.USDC) -> Deposit:
    """Make a deposit that names nobody."""
    found = sighting(named_agent, amount, asset=asset)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    return Deposit.objects.get(tx=found.tx)
