"""Several payments of one transaction in the escrow's history: each is told by its id, or the whole by none."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token import models
from spl.token.instructions import burn, transfer_checked
from spl.token.instructions import transfer as transfer_tokens

from chains.port import ChainUnavailable
from chains.solana.derivation import TOKEN_PROGRAM, associated_account
from chains.solana.escrow_changes import read_changes
from chains.solana.instructions import SOL as WRAPPED_SOL
from chains.solana.instructions import Token, budget, count_lamports, pay_sol, pay_token, spend, write_memo
from chains.solana.token_accounts import EscrowAccount
from chains.solana.transaction_answers import read_transaction
from foundation.kernel.assets import Asset
from tests.support.deposits import none_of_ours
from tests.support.fake_solana_nodes import FINAL, HOLDERS, MINTS, PROGRAMS, RELAYER, RENT, SIGNERS, tell
from tests.support.solana_answers import answer_of, land
from tests.support.solana_groups import new_id

SOL, USDC, PYUSD = Asset.SOL, Asset.USDC, Asset.PYUSD
HELD = 10**12
ACCOUNTS = {
    HOLDERS[asset]: EscrowAccount(asset, str(MINTS[asset]), str(PROGRAMS[asset]), HOLDERS[asset], reserve)
    for asset, reserve in ((SOL, RENT), (USDC, None), (PYUSD, None))
}
TOKENS = {SOL: WRAPPED_SOL} | {asset: Token(MINTS[asset], PROGRAMS[asset], 6) for asset in (USDC, PYUSD)}
SIGNING = (SIGNERS.relayer, SIGNERS.policy_signer)


def pay(asset, units, payment_id, *, is_new=False):
    payee = Keypair().pubkey()
    if asset is SOL:
        return pay_sol(SIGNERS, payee, units, payment_id, RENT)
    return pay_token(SIGNERS, TOKENS[asset], payee, units, payment_id, makes_account=is_new)


def pay_all(*payments):
    return [*budget(0, len(payments)), *(step for one in payments for step in pay(*one))]


def send(units, asset=USDC, to=None):
    token = TOKENS[asset]
    return spend(SIGNERS, token, to or associated_account(RELAYER, token.mint, token.program), units, SIGNING)


def memo(text):
    return write_memo(text, RELAYER)


def read(steps, moved):
    """Read what changed, where so many base units left the accounts."""
    moves = {asset: (HELD, HELD - units) for asset, units in moved.items()}
    tx, found = answer_of(steps, 500, moves)
    return read_changes([read_transaction(found, tx)], ACCOUNTS)


def told(found):
    return [(one.escrow_id, one.asset, int(one.amount.scaleb(one.asset.decimals))) for one in found.outflows]


# --- Payment by payment -----------------------------------------------------------------------------------------------
def test_each_payment_is_an_outflow_of_its_own_with_its_id_its_amount_and_a_number(node, truth):
    steps = pay_all(
        (USDC, 5, "pay_1"),
        (SOL, 7, "pay_2"),
        (
            PYUSD,
            11,
            "pay_3",
        ),
        (USDC, 13, "pay_4"),
    )
    tx, found = answer_of(steps, 500, {USDC: (100, 82), SOL: (70, 63), PYUSD: (11, 0)})
    land(truth, found, [USDC, SOL, PYUSD])

    outflows = tell([node], truth).escrow.search(1, FINAL, none_of_ours).outflows

    assert {(one.escrow_id, one.asset, one.amount) for one in outflows} == {
        ("pay_1", USDC, Decimal("0.000005")), ("pay_2", SOL, Decimal("0.000000007")),
        ("pay_3", PYUSD, Decimal("0.000011")), ("pay_4", USDC, Decimal("0.000013")),
    }  # fmt: skip
    assert len({one.log_index for one in outflows}) == len(outflows) == 4
    keys = found["transaction"]["message"]["accountKeys"]
    assert all(len(keys) <= one.log_index < len(keys) + len(steps) for one in outflows)
    assert {(one.tx, one.block_number, one.recipient) for one in outflows} == {(tx, 500, "")}


payments = st.lists(st.tuples(st.sampled_from([SOL, USDC, PYUSD]), st.integers(1, 10**10), st.booleans()), min_size=2)


@given(payments)
def test_whatever_shares_a_transaction_is_read_as_it_was_signed(made):
    named = [(asset, units, new_id()) for asset, units, _ in made]
    steps = budget(0, len(made))
    for (asset, units, payment_id), (_, _, is_new) in zip(named, made, strict=True):
        steps += pay(asset, units, payment_id, is_new=is_new)
    moved: dict[Asset, int] = {}
    for asset, units, _ in named:
        moved[asset] = moved.get(asset, 0) + units

    found = read(steps, moved)

    assert sorted(told(found)) == sorted((payment_id, asset, units) for asset, units, payment_id in named)
    assert len({one.log_index for one in found.outflows}) == len(named)


@given(payments, st.integers(1, 10**10), st.booleans())
def test_what_balances_do_not_bear_out_is_read_as_one_outflow_without_an_id(made, more, is_more):
    named = [(USDC, units, new_id()) for _, units, _ in made]
    moved = sum(units for _, units, _ in named)
    change = moved + more if is_more or moved <= more else moved - more

    assert told(read(pay_all(*named), {USDC: change})) == [("", USDC, change)]


def test_of_two_assets_each_is_believed_by_itself():
    steps = pay_all((USDC, 5, "pay_1"), (USDC, 6, "pay_2"), (PYUSD, 7, "pay_3"))

    assert sorted(told(read(steps, {USDC: 11, PYUSD: 8}))) == [("", PYUSD, 8), ("pay_1", USDC, 5), ("pay_2", USDC, 6)]


def test_a_deposit_of_another_asset_beside_payments_names_nobody():
    steps = pay_all((USDC, 5, "pay_1"), (USDC, 6, "pay_2"))
    steps.append(count_lamports(SIGNERS))

    found = read(steps, {USDC: 11, SOL: -7})

    assert told(found) == [("pay_1", USDC, 5), ("pay_2", USDC, 6)]
    assert [(one.asset, one.named_agent) for one in found.deposits] == [(SOL, "")]


# --- What a lone payment gives ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("asset", [SOL, USDC, PYUSD])
def test_a_lone_payment_is_numbered_by_its_account_and_told_by_its_balance(asset):
    steps = pay_all((asset, 5, "pay_1"))

    for units in (5, 9):
        found = read(steps, {asset: units})
        assert told(found) == [("pay_1", asset, units)]
        _, seen = answer_of(steps, 500, {})
        assert found.outflows[0].log_index == seen["transaction"]["message"]["accountKeys"].index(HOLDERS[asset])


def test_one_memo_names_all_that_leaves_with_it_as_that_of_a_withdrawal():
    steps = [memo("withdrawal-7"), send(5), send(6), send(8, PYUSD)]

    assert sorted(told(read(steps, {USDC: 11, PYUSD: 8}))) == [("withdrawal-7", PYUSD, 8), ("withdrawal-7", USDC, 11)]


# --- What is not clear ------------------------------------------------------------------------------------------------
def spent_otherwise(units):
    vault = SIGNERS.account(MINTS[USDC], TOKEN_PROGRAM)
    common = {"program_id": TOKEN_PROGRAM, "amount": units, "owner": SIGNERS.escrow(TOKEN_PROGRAM), "signers": []}
    return (
        burn(models.BurnParams(account=vault, mint=MINTS[USDC], **common)),
        transfer_tokens(models.TransferParams(source=vault, dest=Keypair().pubkey(), **common)),
    )


def deposited(units):
    return transfer_checked(
        models.TransferCheckedParams(
            program_id=TOKEN_PROGRAM, source=Keypair().pubkey(), mint=MINTS[USDC],
            dest=SIGNERS.account(MINTS[USDC], TOKEN_PROGRAM), owner=RELAYER, amount=units, decimals=6,
        )
    )  # fmt: skip


ONE, OTHER = [memo("pay_1"), send(5)], [memo("pay_2"), send(6)]
UNCLEAR = {
    "the same id twice": [*ONE, memo("pay_1"), send(6)],
    "a third without an id": [*ONE, *OTHER, send(4)],
    "an id too far away": [*ONE, memo("pay_2"), count_lamports(SIGNERS), send(6)],
    "an id behind": [memo("pay_1"), send(5), send(6), memo("pay_2")],
    "spent otherwise": [*ONE, *OTHER, spent_otherwise(4)[0]],
    "an unchecked transfer": [*ONE, memo("pay_2"), spent_otherwise(6)[1]],
    "something came back": [*ONE, *OTHER, deposited(3)],
    "something else came and went": [*ONE, *OTHER, send(3), deposited(3)],
    "one to itself": [*ONE, memo("pay_2"), send(6, to=SIGNERS.account(MINTS[USDC], TOKEN_PROGRAM))],
    "another program touches it": [
        *ONE, *OTHER, Instruction(Pubkey.default(), b"", [AccountMeta(Pubkey.from_string(HOLDERS[USDC]), False, True)])
    ],
    "data that are too long": [
        *ONE, memo("pay_2"), Instruction(send(6).program_id, bytes(send(6).data) + b"\0", send(6).accounts)
    ],
}  # fmt: skip


@pytest.mark.parametrize("steps", UNCLEAR.values(), ids=UNCLEAR)
@pytest.mark.parametrize("change", [4, 5, 6, 8, 11, 15])
def test_what_is_not_clear_names_no_payment_whatever_it_adds_up_to(steps, change):
    assert told(read([*budget(0, 2), *steps], {USDC: change})) == [("", USDC, change)]


def test_an_empty_or_unreadable_id_is_an_id_of_nothing_that_we_know():
    steps = [memo("pay_1"), send(5), Instruction(MEMO_PROGRAM_ID, b"\xff\0", []), send(6)]

    assert [one[0] for one in told(read(steps, {USDC: 11}))] == ["pay_1", "\N{REPLACEMENT CHARACTER}" * 2]


# --- Nodes ------------------------------------------------------------------------------------------------------------
def test_nodes_that_tell_of_other_ids_contradict_each_other(nodes, truth, liar):
    steps = pay_all((USDC, 5, "pay_1"), (USDC, 6, "pay_2"))
    other = pay_all((USDC, 5, "pay_1"), (USDC, 6, "pay_3"))
    _, found = answer_of(steps, 500, {USDC: (11, 0)})
    _, lie = answer_of(other, 500, {USDC: (11, 0)})
    land(truth, found, [USDC])

    honest = tell(nodes, truth).escrow.search(1, FINAL, none_of_ours)
    assert [one.escrow_id for one in honest.outflows] == ["pay_1", "pay_2"]
    with pytest.raises(ChainUnavailable):
        tell(nodes, truth, liar, getTransaction=lambda *_: lie).escrow.search(1, FINAL, none_of_ours)


@pytest.mark.parametrize(
    "broken",
    [{"accounts": [99]}, {"accounts": None}, {"accounts": [-1]}, {"programIdIndex": 99}, {"data": "0OIl"}],
    ids=["beyond", "none", "negative", "no program", "no base58"],
)
def test_an_instruction_that_cannot_be_read_breaks_the_answer(node, truth, broken):
    _, found = answer_of(pay_all((USDC, 5, "pay_1"), (USDC, 6, "pay_2")), 500, {USDC: (11, 0)})
    found["transaction"]["message"]["instructions"][2] |= broken
    land(truth, found, [USDC])

    with pytest.raises(ChainUnavailable):
        tell([node], replace(truth)).escrow.search(1, FINAL, none_of_ours)
