"""The changes of money and chains that the console proposes: what makes each, from what its author was shown.

All need a second person, but for a stop: that must be quick, and does no harm.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from chains.catalogue import alias_of
from foundation.console.figures import show_amount
from foundation.groups import WHOLE, Group
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, parse_signed_amount
from payments.funding.credits import adjust_balance
from payments.funding.deposits import credit_deposit
from payments.funding.owner_transactions import cancel_checked, check_is_over
from payments.funding.withdrawals import book_withdrawal, find_withdrawal, group_of_withdrawal
from payments.models import Outflow
from payments.reconciling.outflow_booking import book_outflow, group_of_outflow
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from policy.models import Agent
from services.served_chains import read_chain, read_known_chain
from staff.kinds import STOP, Argument, Kind

ADJUST, WITHDRAW, CREDIT = "balance.adjust", "withdrawal.book", "deposit.credit"
CANCEL, BOOK = "withdrawal.cancel", "outflow.book"
STOP_CHAIN, START_CHAIN = "chain.stop", "chain.start"

_MOVE = "ledger.add_balancemovement"
Arguments = Mapping[str, Any]


def _adjust(arguments: Arguments, by: str, reason: str) -> str:
    amount = _amount(arguments)
    agent = adjust_balance(
        arguments["agent"],
        amount=amount,
        chain=arguments["chain"],
        after=arguments.get("after"),
        by=by,
        reason=reason,
    )
    done = f"Credited {show_amount(amount)}" if amount > 0 else f"Deducted {show_amount(-amount)}"
    return f"{done} {agent.asset}: the balance of {agent} is {show_amount(agent.balance)} {agent.asset}."


def _withdraw(arguments: Arguments, by: str, reason: str) -> str:
    withdrawal = book_withdrawal(
        arguments["agent"],
        amount=_amount(arguments),
        chain=arguments["chain"],
        recipient=arguments["recipient"],
        after=arguments.get("after"),
        by=by,
        reason=reason,
    )
    return (
        f"Booked the withdrawal {withdrawal} of {show_amount(withdrawal.amount)} {withdrawal.asset}. "
        "Its page shows what the owner of the escrow has to sign."
    )


def _credit(arguments: Arguments, by: str, reason: str) -> str:
    deposit = credit_deposit(arguments["deposit"], agent_id=arguments["agent"], by=by, reason=reason)
    return f"Credited {deposit} to {deposit.agent_id}."


def _cancel(arguments: Arguments, by: str, reason: str) -> str:
    return f"Cancelled {cancel_checked(arguments['withdrawal'], by=by, reason=reason)}."


def _check_cancellation(arguments: Arguments) -> None:
    check_is_over(find_withdrawal(arguments["withdrawal"]))


def _group_of_withdrawal(arguments: Arguments) -> Group:
    return group_of_withdrawal(find_withdrawal(arguments["withdrawal"]))


def _group_of_outflow(arguments: Arguments) -> Group:
    outflow = Outflow.objects.filter(pk=arguments["outflow"]).first()
    return WHOLE if outflow is None else group_of_outflow(outflow, arguments["agent"])


def _book(arguments: Arguments, by: str, reason: str) -> str:
    outflow = book_outflow(arguments["outflow"], by=by, reason=reason, agent_id=arguments["agent"])
    return f"Booked {outflow}."


def _start_chain(arguments: Arguments, by: str, reason: str) -> str:
    stopped_at = arguments.get("stopped_at")
    seen = None if stopped_at is None else datetime.fromisoformat(stopped_at)
    state = start_signing_on(arguments["chain"], by=by, reason=reason, stopped_at=seen)
    return f"Started signing again on {alias_of(state.chain)}."


def _stop_chain(arguments: Arguments, by: str, reason: str) -> str:
    state = stop_signing_on(arguments["chain"], by=by, reason=reason)
    return f"Signing on {alias_of(state.chain)} is stopped: {state.stopped_reason}"


def _amount(arguments: Arguments) -> Decimal:
    """Read a signed amount, in the asset of the agent whose balance changes."""
    asset = Agent.objects.filter(pk=arguments["agent"]).values_list("asset", flat=True).first()
    if asset is None:
        raise OperationRefused(f"There is no agent {arguments['agent']}.")
    try:
        return parse_signed_amount(arguments["amount"], Asset(asset))
    except AmountError as error:
        raise OperationRefused(f"amount: {error}") from error


_AGENT = Argument("The agent's id.")
_CHAIN = {"chain": Argument("An alias such as base, or CAIP-2.", read_chain)}
_MOVED = {
    "agent": _AGENT,
    "amount": Argument("In the allowance's asset, signed where it may be deducted: -0.50."),
    "chain": Argument("The chain of the escrow: an alias such as base, or CAIP-2.", read_known_chain),
    "after": Argument(
        "The newest movement by hand that was looked at; after another one nothing moves.", int, is_needed=False
    ),
}
_TO = {"recipient": Argument("The address that is paid on that chain.")}
_DEPOSIT = {"deposit": Argument("The number of the deposit.", int), "agent": _AGENT}
_WITHDRAWAL = {"withdrawal": Argument("Its reference (wdr_…).")}
_OUTFLOW = {
    "outflow": Argument("The number of the outflow.", int),
    "agent": Argument("The agent whose money it was; empty: it was a loss.", lambda text: text or None),
}
_SWITCH = "payments.change_chainstate"
KINDS = (
    Kind(ADJUST, "Credit or debit an agent by hand", _MOVE, _adjust, is_rehearsed=True, takes=_MOVED),
    Kind(WITHDRAW, "Book a withdrawal", _MOVE, _withdraw, is_rehearsed=True, takes=_MOVED | _TO),
    Kind(CREDIT, "Credit a deposit that was set aside", _MOVE, _credit, is_rehearsed=True, takes=_DEPOSIT),
    Kind(
        CANCEL,
        "Cancel a withdrawal",
        "payments.change_withdrawal",
        _cancel,
        is_rehearsed=True,
        check=_check_cancellation,
        group=_group_of_withdrawal,
        takes=_WITHDRAWAL,
    ),
    Kind(
        BOOK,
        "Book an outflow",
        "payments.change_outflow",
        _book,
        is_rehearsed=True,
        takes=_OUTFLOW,
        group=_group_of_outflow,
    ),
    Kind(STOP_CHAIN, "Stop signing on a chain", _SWITCH, _stop_chain, takes=_CHAIN),
    Kind(START_CHAIN, "Start signing on a chain", _SWITCH, _start_chain, takes={**_CHAIN, "stopped_at": STOP}),
)
