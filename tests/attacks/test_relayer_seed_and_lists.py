"""Who has only the relayers' seed can do no more with a list of payments than with one. On the real escrow."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from policy.models import Agent
from tests.attacks.conftest import follow_until_final, seen_of
from tests.support.evm_escrow import daily_cap, escrow, rpc
from tests.support.invariants import check_agent
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM
from tests.support.scenes import status_of, transaction_of, transactions_of
from tests.support.together import pay_services

FAILED, SETTLED, APPROVED = PaymentStatus.FAILED, PaymentStatus.SETTLED, PaymentStatus.APPROVED
UNIT = 1_000_000
PAYMENT = "(bytes32,address,address,uint256)"
LIST = [f"{PAYMENT}[]", "uint256", "bytes"]
PAY_MANY = keccak(text=f"payMany({PAYMENT}[],uint256,bytes)")[:4].hex()
PAY = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4].hex()


@pytest.fixture
def localnet() -> Localnet:
    return EVM


@pytest.fixture
def payments(real, thief) -> list[Payment]:
    """Three payments in one transaction, the second of another token."""
    return make_list()


def make_list() -> list[Payment]:
    assets = Asset.USDC, Asset.EURC, Asset.USDC
    made = pay_services(EVM, [EVM.make_service(one) for one in assets])
    assert len({transaction_of(one).tx for one in made}) == 1
    assert seen_of(made[0])[2:10] == PAY_MANY
    return made


def received(payments: Iterable[Payment]) -> list[int]:
    """Tell what the payee of each has, each one's own."""
    return [EVM.balance_of(Asset(one.asset), one.recipient) for one in payments]


def statuses(payments: Iterable[Payment]) -> list[str]:
    return [status_of(one) for one in payments]


def have_their_money(payments: Iterable[Payment]) -> bool:
    """Tell whether each agent has what its payment did not cost, and its log says so."""
    for one in payments:
        check_agent(one.agent_id)
    spent: dict[str, int] = {SETTLED: 1, APPROVED: 1, FAILED: 0}
    balances = [Agent.objects.get(pk=one.agent_id).balance + spent[status_of(one)] for one in payments]
    return len(set(balances)) == 1


def are_paid_once(payments: Sequence[Payment]) -> bool:
    """Tell whether each is settled, its payee has its money once, and its agent has paid it."""
    is_paid = (statuses(payments), received(payments)) == ([SETTLED] * len(payments), [UNIT] * len(payments))
    return is_paid and have_their_money(payments)


def submit_again(thief, *seen: str) -> None:
    for calldata in seen:
        thief.include(thief.submit(calldata))


def altered(seen: str, order: Sequence[int]) -> str:
    """Make the call of a list with these of its payments, in this order, and the signature that it had."""
    orders, deadline, signature = decode(LIST, bytes.fromhex(seen[10:]))
    return "0x" + PAY_MANY + encode(LIST, [[orders[one] for one in order], deadline, signature]).hex()


def alone(seen: str, which: int) -> str:
    """Make the call that pays one of a list by itself, by the signature of the list."""
    orders, deadline, signature = decode(LIST, bytes.fromhex(seen[10:]))
    types = ["bytes32", "address", "address", "uint256", "uint256", "bytes"]
    return "0x" + PAY + encode(types, [*orders[which], deadline, signature]).hex()


# --- The list as it is ------------------------------------------------------------------------------------------------
def test_a_list_that_the_thief_submits_is_settled_by_that_once(payments, thief, is_untroubled):
    seen = seen_of(payments[0])

    assert thief.include(tx := thief.submit(seen))
    EVM.drain()
    submit_again(thief, seen, seen)
    EVM.drain()

    assert are_paid_once(payments)
    assert [transactions_of(one)[-1].tx for one in payments] == [tx] * 3
    assert is_untroubled(LOCALNET)


def test_a_list_whose_nonce_was_stolen_is_not_given_back_while_the_thief_can_pay_it(payments, thief, is_untroubled):
    seen = seen_of(payments[0])

    follow_until_final(thief.use_nonce_of(payments[0]))
    assert statuses(payments) == [APPROVED] * 3

    assert thief.include(thief.submit(seen))
    EVM.drain()
    submit_again(thief, seen)
    EVM.drain()
    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


def test_what_was_given_back_after_a_stolen_nonce_can_never_be_paid(payments, thief, is_untroubled):
    seen = seen_of(payments[0])
    follow_until_final(thief.use_nonce_of(payments[0]))

    EVM.drain()
    submit_again(thief, seen, seen)
    EVM.drain()

    assert (statuses(payments), received(payments)) == ([FAILED] * 3, [0] * 3)
    assert have_their_money(payments)
    assert is_untroubled(LOCALNET)


def test_a_list_that_was_withheld_past_its_deadline_is_signed_anew_and_paid_once(real, thief, is_untroubled):
    payments = pay_services(EVM, [EVM.make_service() for _ in range(3)], now=utc_now() - timedelta(minutes=20))
    old = seen_of(payments[0])
    EVM.follow()
    newer = seen_of(payments[0])
    assert newer != old
    assert len({transaction_of(one).tx for one in payments}) == 1

    assert not thief.include(thief.submit(old))
    assert thief.include(thief.submit(newer))
    EVM.drain()
    submit_again(thief, old, newer)
    EVM.drain()

    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


# --- A part of it -----------------------------------------------------------------------------------------------------
def test_the_thief_changes_neither_the_order_of_a_list_nor_what_is_in_it(payments, thief, is_untroubled):
    seen = seen_of(payments[0])
    orders: list[list[int]] = [[2, 1, 0], [0, 2, 1], [0, 1], [2], [0, 1, 2, 2], []]

    tried = [thief.include(thief.submit(altered(seen, order))) for order in orders]
    tried += [thief.include(thief.submit(alone(seen, which))) for which in range(3)]

    assert tried == [False] * 9
    assert received(payments) == [0] * 3
    EVM.drain()
    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


def test_the_thief_has_nothing_skipped_by_too_little_gas(payments, thief, is_untroubled):
    seen = seen_of(payments[0])
    asked = {"from": transaction_of(payments[0]).relayer.address, "to": escrow(), "data": seen}
    used = int(rpc("eth_estimateGas", asked), 16)

    for part in range(5, 100, 10):
        thief.include(thief.submit(seen, GAS=str(max(used * part // 100, 40_000))))
        assert received(payments) == [0] * 3
    EVM.drain()

    assert are_paid_once(payments)
    assert all(len(transactions_of(one)) == 1 for one in payments)
    assert is_untroubled(LOCALNET)


def test_one_that_was_skipped_is_paid_once_whether_by_its_list_or_alone(payments, thief, is_untroubled):
    seen = seen_of(payments[0])
    with daily_cap(Asset.EURC, 0):
        EVM.include(payments[0])
        assert received(payments) == [UNIT, 0, UNIT]
        follow_until_final(transaction_of(payments[0]).tx)
    newer = seen_of(payments[1])
    assert newer != seen
    assert (statuses(payments), newer[2:10]) == ([SETTLED, APPROVED, SETTLED], PAY)

    # The list is good until its deadline: what it skipped, it may still pay. Whichever comes first counts.
    assert thief.include(thief.submit(seen))
    assert received(payments) == [UNIT] * 3
    assert not thief.include(thief.submit(newer))
    EVM.drain()
    submit_again(thief, seen, newer)
    EVM.drain()

    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


def test_one_that_the_thief_pays_before_its_list_is_paid_by_neither_again(payments, thief, is_untroubled):
    """The list skips all but one, by a cap; both are then under way alone, and the thief has the old list."""
    seen = seen_of(payments[0])
    with daily_cap(Asset.USDC, 0):
        assert thief.include(thief.submit(seen))
        EVM.include(payments[0])
        EVM.follow()
    assert received(payments) == [0, UNIT, 0]
    submit_again(thief, seen)
    EVM.drain()
    submit_again(thief, seen)
    EVM.drain()

    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


# --- Other histories --------------------------------------------------------------------------------------------------
def test_a_list_whose_block_vanishes_is_paid_once_whoever_submits_it_then(payments, thief, is_untroubled):
    seen = seen_of(payments[0])
    number = EVM.include(payments[0])
    EVM.follow()
    EVM.reorganise(number)

    thief.include(thief.submit(seen))
    EVM.drain()
    submit_again(thief, seen)
    EVM.drain()

    assert are_paid_once(payments)
    assert is_untroubled(LOCALNET)


def test_two_lists_that_the_thief_submits_by_one_transaction_are_each_settled_once(payments, thief, is_untroubled):
    others = make_list()

    assert thief.include(tx := thief.submit_both(seen_of(payments[0]), seen_of(others[0])))
    EVM.drain()

    assert are_paid_once(payments + others)
    assert {transactions_of(one)[-1].tx for one in payments + others} == {tx}
    assert is_untroubled(LOCALNET)
