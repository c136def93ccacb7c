"""`SolanaPreparer.divide`: as many payments as fit share a transaction, and what that costs at most."""

from dataclasses import replace
from decimal import Decimal

import pytest
from solders.keypair import Keypair
from solders.transaction import Transaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID

from chains.port import ChainUnavailable, SignerUnavailable
from chains.solana.costs import find_rent
from chains.solana.instructions import MOST_BYTES, UNIT_LIMIT
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from policy.signer import LocalSigner
from tests.support.solana_groups import (
    MOST_OF_SOL,
    MOST_TO_ACCOUNTS,
    MOST_TO_NEW_PAYEES,
    divide,
    plan_payment,
    plan_together,
    sign_together,
    to_account,
    to_new_payee,
)
from tests.support.solana_vm import NOW, SEED, SIGNER_KEY, Bench

TOKENS = [Asset.USDC, Asset.PYUSD]


@pytest.fixture(scope="module")
def bench():
    return Bench()


def message_of(signed):
    return Transaction.from_bytes(signed.raw).message


def closed_account(bench):
    payee = Keypair().pubkey()
    return plan_payment(Asset.USDC, "1", payee, {"closed": [str(bench.where(Asset.USDC, payee))]})


def calls_of(message, program):
    """Read the data of the instructions of a program."""
    keys = message.account_keys
    return [bytes(one.data) for one in message.instructions if keys[one.program_id_index] == program]


# --- How many ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("asset", TOKENS)
def test_nine_payments_of_a_token_fit_if_their_payees_have_accounts(bench, asset):
    payments = [to_account(bench, asset) for _ in range(20)]

    assert divide(bench, payments) == [MOST_TO_ACCOUNTS, MOST_TO_ACCOUNTS, 2]


@pytest.mark.parametrize("asset", TOKENS)
def test_five_payments_of_a_token_fit_if_their_payees_are_new(bench, asset):
    payments = [to_new_payee(asset) for _ in range(12)]

    assert divide(bench, payments) == [MOST_TO_NEW_PAYEES, MOST_TO_NEW_PAYEES, 2]


def test_two_payments_of_sol_fit(bench):
    assert divide(bench, [to_new_payee(Asset.SOL) for _ in range(5)]) == [MOST_OF_SOL, MOST_OF_SOL, 1]


def test_payments_of_all_kinds_fill_one_transaction_after_the_other_in_their_order(bench):
    makers = [to_account(bench), to_new_payee(), to_new_payee(Asset.SOL), to_account(bench, Asset.PYUSD)] * 3
    payments = [
        replace(one, order=replace(one.order, escrow_id=f"pay_{place:026}")) for place, one in enumerate(makers)
    ]

    sizes = divide(bench, payments)

    assert sizes == [3, 3, 3, 3]
    signed = [sign_together(bench, payments[start : start + 3]) for start in range(0, 12, 3)]
    assert all(len(one.raw) <= MOST_BYTES for one in signed)


@pytest.mark.parametrize("make", [to_new_payee, None], ids=["new payees", "with accounts"])
def test_one_more_than_fits_would_be_too_long(bench, make):
    payments = [make() if make else to_account(bench) for _ in range(10)]
    (most, *_) = divide(bench, payments)

    assert len(sign_together(bench, payments[:most]).raw) <= MOST_BYTES
    assert len(sign_together(bench, payments[: most + 1]).raw) > MOST_BYTES


@pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 5), (2, [2, 2, 1]), (4, [4, 1]), (5, [5]), (6, [5])])
def test_no_more_share_a_transaction_than_the_operator_lets(bench, most, sizes):
    assert divide(bench, [to_account(bench) for _ in range(5)], most) == sizes


def test_the_units_of_no_transaction_are_more_than_the_chain_lets_it_have():
    assert MOST_TO_ACCOUNTS * UNIT_LIMIT <= 1_400_000


def test_payments_that_offer_other_prices_have_other_transactions(bench):
    payments = [to_account(bench) for _ in range(5)]
    again = [replace(one, order=replace(one.order, attempt=2)) for one in payments[2:4]]

    assert divide(bench, [*payments[:2], *again, payments[4]]) == [2, 2, 1]
    # At the highest price of all they are alike.
    assert divide(bench, [*payments[:2], *again, payments[4]], unitPriceMicroLamports=5_000_000) == [5]


def test_nothing_is_divided_that_cannot_be_made_or_was_not_observed(bench):
    closed = closed_account(bench)

    with pytest.raises(ChainUnavailable, match="closed its account"):
        divide(bench, [to_account(bench), closed])
    with pytest.raises(ChainUnavailable, match="not observed with the present configuration"):
        divide(bench, [to_account(bench), to_account(bench)], configuration="other")
    # Alone, it is refused when it is signed.
    assert divide(bench, [closed]) == [1]


# --- What is signed ---------------------------------------------------------------------------------------------------
def test_each_says_its_id_right_before_its_transfer_and_all_share_one_budget(bench):
    payments = [to_account(bench), to_new_payee(), to_account(bench, Asset.PYUSD)]

    message = message_of(sign_together(bench, payments, unitPriceMicroLamports=7))

    limit, price = message.instructions[:2]
    assert int.from_bytes(limit.data[1:], "little") == 3 * UNIT_LIMIT
    assert int.from_bytes(price.data[1:], "little") == 7
    programs = [message.account_keys[one.program_id_index] for one in message.instructions]
    memos = [place for place, program in enumerate(programs) if program == MEMO_PROGRAM_ID]
    assert [bytes(message.instructions[place].data).decode() for place in memos] == [
        one.order.escrow_id for one in payments
    ]
    transfers = [message.instructions[place + 1] for place in memos]
    assert [(one.data[0], int.from_bytes(one.data[1:9], "little")) for one in transfers] == [(12, 1_500_000)] * 3


def test_it_offers_the_highest_of_their_prices(bench):
    first, second = to_account(bench), to_account(bench)
    raised = replace(second, order=replace(second.order, attempt=2))

    price = message_of(sign_together(bench, [first, raised])).instructions[1]

    assert int.from_bytes(price.data[1:], "little") == 160_000


def test_two_payments_to_one_new_payee_make_its_account_once(bench):
    payee = Keypair().pubkey()
    payments = [plan_payment(asset, "1", payee, {}) for asset in (Asset.USDC, Asset.USDC, Asset.PYUSD)]
    assert divide(bench, payments) == [3]

    signed = sign_together(bench, payments)

    assert len(calls_of(message_of(signed), ASSOCIATED_TOKEN_PROGRAM_ID)) == 2
    rents = 2 * find_rent(bench.state()["rentExempt"]["token"])
    assert signed.most_cost == Decimal(10_000 + rents).scaleb(-9)


def test_a_lone_payment_is_signed_as_if_there_were_no_others(bench):
    one, other = to_account(bench), to_new_payee(Asset.SOL)
    alone = sign_together(bench, [one])

    sign_together(bench, [one, other])

    assert sign_together(bench, [one]) == alone
    assert int.from_bytes(message_of(alone).instructions[0].data[1:], "little") == UNIT_LIMIT


@pytest.mark.parametrize("price", [0, 1, 12_345, 5_000_000])
def test_it_costs_at_most_what_all_would_cost_by_themselves(bench, price):
    payee = Keypair().pubkey()
    payments = [to_account(bench), to_new_payee(), *(plan_payment(Asset.USDC, "1", payee, {}) for _ in range(2))]
    plan = plan_together(bench, payments, unitPriceMicroLamports=price)
    alone = [bench.chain.rehearse(replace(plan, payments=[one])) for one in payments]

    signed = bench.chain.prepare(plan, NOW)

    fee = Decimal(10_000 - -4 * UNIT_LIMIT * price // 10**6).scaleb(-9)
    rent = Decimal(find_rent(plan.state["rentExempt"]["token"])).scaleb(-9)
    assert signed.most_cost == bench.chain.rehearse(plan) == fee + 2 * rent
    assert signed.most_cost < sum(alone)
    # Of the two payments to one payee, each alone would make the account.
    assert sum(alone) - signed.most_cost >= rent + 3 * Decimal(10_000).scaleb(-9)


# --- What is not signed -----------------------------------------------------------------------------------------------
def test_none_is_signed_if_one_of_them_cannot_be(bench):
    good, closed = to_account(bench), closed_account(bench)
    unserved = replace(good, order=replace(good.order, asset=Asset.EURC))

    for bad, why in ((closed, "closed its account"), (unserved, "EURC is not served on this chain.")):
        for payments in ([good, bad], [bad, good]):
            with pytest.raises(ChainUnavailable, match=why):
                sign_together(bench, payments)
            with pytest.raises(ChainUnavailable, match=why):
                bench.chain.rehearse(plan_together(bench, payments))


def test_two_payments_of_sol_that_only_together_keep_their_payee_are_not_signed(bench):
    payee = Keypair().pubkey()
    payments = [plan_payment(Asset.SOL, "0.0005", payee, {"lamports": 0}) for _ in range(2)]

    with pytest.raises(ChainUnavailable, match=r"less than 0\.00089088 SOL"):
        sign_together(bench, payments)


def test_no_group_is_signed_by_other_keys(bench):
    payments = [to_account(bench), to_account(bench)]
    plan = plan_together(bench, payments)
    other = LocalSigner(SEED[:32], SEED[32:], SIGNER_KEY[::-1])

    with pytest.raises(ChainUnavailable, match="not that of this relayer and this policy signer"):
        bench.chain.prepare(replace(plan, signer=other), NOW)
    with pytest.raises(SignerUnavailable):
        bench.chain.prepare(replace(plan, signer=LocalSigner(SEED[:32], SEED[32:])), NOW)
    with pytest.raises(ChainUnavailable, match="not the one that it was registered with"):
        SolanaPreparer(bench.served(), SEED[::-1], bench.signers).prepare(plan, NOW)
