"""The changes of money and chains that the console proposes: what makes each, from what its author was shown.

All need a second person, but for a stop: that must be quick, and does no harm.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from chains.catalogue import alias_of
from foundation.console.figures import show_amount
from payments.funding.credits import adjust_balance
from payments.funding.deposits import credit_deposit
from payments.funding.owner_transactions import cancel_checked, check_is_over
from payments.funding.withdrawals import book_withdrawal, find_withdrawal
from payments.reconciling.outflow_booking import book_outflow
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from staff.second_person import Kind

ADJUST, WITHDRAW, CREDIT = "balance.adjust", "withdrawal.book", "deposit.credit"
CANCEL, BOOK = "withdrawal.cancel", "outflow.book"
STOP_CHAIN, START_CHAIN = "chain.stop", "chain.start"

_MOVE = "ledger.add_balancemovement"
Arguments = Mapping[str, Any]


def _adjust(arguments: Arguments, by: str, reason: str) -> str:
    amount = Decimal(arguments["amount"])
    agent = adjust_balance(
        arguments["agent"],
        amount=amount,
        chain=arguments["chain"],
        after=arguments["after"],
        by=by,
        reason=reason,
    )
    done = f"Credited {show_amount(amount)}" if amount > 0 else f"Deducted {show_amount(-amount)}"
    return f"{done} {agent.asset}: the balance of {agent} is {show_amount(agent.balance)} {agent.asset}."


def _withdraw(arguments: Arguments, by: str, reason: str) -> str:
    withdrawal = book_withdrawal(
        arguments["agent"],
        amount=Decimal(arguments["amount"]),
        chain=arguments["chain"],
        recipient=arguments["recipient"],
        after=arguments["after"],
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


def _book(arguments: Arguments, by: str, reason: str) -> str:
    outflow = book_outflow(arguments["outflow"], by=by, reason=reason, agent_id=arguments["agent"])
    return f"Booked {outflow}."


def _start_chain(arguments: Arguments, by: str, reason: str) -> str:
    stopped_at = datetime.fromisoformat(arguments["stopped_at"])
    state = start_signing_on(arguments["chain"], by=by, reason=reason, stopped_at=stopped_at)
    return f"Started signing again on {alias_of(state.chain)}."


def _stop_chain(arguments: Arguments, by: str, reason: str) -> str:
    state = stop_signing_on(arguments["chain"], by=by, reason=reason)
    return f"Signing on {alias_of(state.chain)} is stopped: {state.stopped_reason}"


KINDS = (
    Kind(ADJUST, "Credit or debit an agent by hand", _MOVE, _adjust, is_rehearsed=True),
    Kind(WITHDRAW, "Book a withdrawal", _MOVE, _withdraw, is_rehearsed=True),
    Kind(CREDIT, "Credit a deposit that was set aside", _MOVE, _credit, is_rehearsed=True),
    Kind(
        CANCEL,
        "Cancel a withdrawal",
        "payments.change_withdrawal",
        _cancel,
        is_rehearsed=True,
        check=_check_cancellation,
    ),
    Kind(BOOK, "Book an outflow", "payments.change_outflow", _book, is_rehearsed=True),
    Kind(STOP_CHAIN, "Stop signing on a chain", "payments.change_chainstate", _stop_chain),
    Kind(START_CHAIN, "Start signing on a chain", "payments.change_chainstate", _start_chain),
)
