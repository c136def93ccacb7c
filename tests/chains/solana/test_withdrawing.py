"""Withdrawals on Solana's virtual machine: any two of the three signers take money out, and one never does."""

from dataclasses import replace

import pytest
from solders.keypair import Keypair
from solders.signature import Signature
from solders.transaction import Transaction
from solders.transaction_metadata import FailedTransactionMetadata, TransactionMetadata
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import close_account
from spl.token.models import CloseAccountParams

from chains.port import ChainUnavailable
from chains.solana.instructions import Token
from chains.solana.withdrawing import (
    Transfer,
    find_missing_signers,
    sign_further,
    sign_partially,
    withdrawal_message,
)
from foundation.kernel.assets import Asset
from owner.solana.moving import find_held
from tests.support.fake_solana_nodes import HOLDERS, MINTS, PROGRAMS, RENT, holder_account, tell
from tests.support.solana_vm import SOL, Bench

ASSETS = [Asset.SOL, Asset.USDC, Asset.PYUSD]
PAIRS = [("owner", "relayer"), ("owner", "policy"), ("relayer", "policy"), ("relayer", "owner")]
MEMO = "wd_01m7w7cq32s9ezcpf00jhcevrn"


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def recipient():
    return Keypair().pubkey()


@pytest.fixture
def payer(bench):
    """Somebody with SOL who is none of the three."""
    made = Keypair()
    bench.vm.airdrop(made.pubkey(), SOL)
    return made


def token(bench, asset):
    return Token(bench.mints[asset], bench.program(asset), asset.decimals)


def message(bench, pair, payer, *transfers, memo=MEMO):
    """Make a message that two of the bench's keys, by name, are to sign."""
    first, second = (getattr(bench, one).pubkey() for one in pair)
    return withdrawal_message(
        bench.signers,
        signing=(first, second),
        fee_payer=payer.pubkey(),
        transfers=transfers,
        memo=memo,
        blockhash=bench.vm.latest_blockhash(),
    )


def memos(made):
    at = made.account_keys.index(MEMO_PROGRAM_ID)
    return [bytes(one.data).decode() for one in made.instructions if one.program_id_index == at]


# --- Two of three -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
@pytest.mark.parametrize("asset", ASSETS)
def test_any_two_signers_move_the_exact_amount_into_an_account_that_is_made(bench, recipient, payer, asset, pair):
    made = message(bench, pair, payer, Transfer(token(bench, asset), 1_234_567, recipient))

    raw = sign_partially(made, [payer, *(getattr(bench, one) for one in pair)])

    assert find_missing_signers(raw) == []
    outcome = bench.offer(raw)
    assert isinstance(outcome, TransactionMetadata), outcome
    assert bench.units(asset, recipient) == 1_234_567
    assert bench.escrow_units(asset) == 100 * 10**asset.decimals - 1_234_567
    assert memos(made) == [MEMO]


@pytest.mark.parametrize("pair", [("owner", "relayer"), ("owner", "policy")], ids=" and ".join)
def test_the_owner_pays_for_it_where_nobody_else_can(bench, recipient, pair):
    bench.vm.airdrop(bench.owner.pubkey(), SOL)
    made = message(bench, pair, bench.owner, Transfer(token(bench, Asset.USDC), 5, recipient))

    assert isinstance(bench.offer(sign_partially(made, [getattr(bench, one) for one in pair])), TransactionMetadata)
    assert bench.units(Asset.USDC, recipient) == 5


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
@pytest.mark.parametrize("missing", [0, 1])
def test_one_signer_alone_moves_nothing_whoever_pays(bench, recipient, payer, pair, missing):
    made = message(bench, pair, payer, Transfer(token(bench, Asset.USDC), 1, recipient))
    alone, absent = getattr(bench, pair[1 - missing]), getattr(bench, pair[missing])

    raw = sign_partially(made, [payer, alone])

    assert find_missing_signers(raw) == [absent.pubkey()]
    at = made.account_keys.index(absent.pubkey())
    for signature in (Signature.default(), alone.sign_message(bytes(made)), Keypair().sign_message(bytes(made))):
        signatures = list(Transaction.from_bytes(raw).signatures)
        signatures[at] = signature
        forged = bytes(Transaction.populate(made, signatures))
        assert isinstance(bench.offer(forged), FailedTransactionMetadata)
    assert (bench.units(Asset.USDC, recipient), bench.escrow_units(Asset.USDC)) == (0, 100 * 10**6)


def test_an_escrow_of_two_other_signers_is_not_moved_by_them(bench, recipient, payer):
    thief, other = Keypair(), Keypair()
    theirs = replace(bench.signers, policy_signer=thief.pubkey(), owner=other.pubkey())
    made = withdrawal_message(
        theirs,
        signing=(thief.pubkey(), other.pubkey()),
        fee_payer=payer.pubkey(),
        transfers=[Transfer(token(bench, Asset.USDC), 1, recipient)],
        memo=MEMO,
        blockhash=bench.vm.latest_blockhash(),
    )

    assert isinstance(bench.offer(sign_partially(made, [payer, thief, other])), FailedTransactionMetadata)
    assert bench.escrow_units(Asset.USDC) == 100 * 10**6


@pytest.mark.parametrize("other", ["relayer", "policy"])
def test_payments_go_on_after_a_withdrawal_and_take_no_owner(bench, recipient, payer, other):
    made = message(bench, ("owner", other), payer, Transfer(token(bench, Asset.USDC), 1, recipient))
    bench.offer(sign_partially(made, [payer, bench.owner, getattr(bench, other)]))

    bench.pay(Asset.USDC, "2", recipient)

    assert bench.units(Asset.USDC, recipient) == 2_000_001


# --- SOL, and several tokens at once ----------------------------------------------------------------------------------
def test_sol_that_was_sent_plainly_goes_out_too_and_a_wallet_unwraps_it(bench, payer):
    bench.vm.airdrop(bench.escrow_account(Asset.SOL), 5 * SOL)
    wallet = bench.owner.pubkey()
    made = message(bench, ("owner", "relayer"), payer, Transfer(token(bench, Asset.SOL), 105 * SOL, wallet))
    assert isinstance(bench.offer(sign_partially(made, [payer, bench.owner, bench.relayer])), TransactionMetadata)
    assert (bench.units(Asset.SOL, wallet), bench.escrow_units(Asset.SOL)) == (105 * SOL, 0)

    wrapped = bench.where(Asset.SOL, wallet)
    close = CloseAccountParams(program_id=TOKEN_PROGRAM_ID, account=wrapped, dest=wallet, owner=wallet)
    bench.run([close_account(close)], payer, bench.owner)

    assert bench.lamports(wallet) == 105 * SOL + bench.rent(165)


def test_everything_moves_to_the_escrow_of_other_keys_at_once(bench, payer):
    rotated = replace(bench.signers, policy_signer=Keypair().pubkey())
    for program in (TOKEN_PROGRAM_ID, TOKEN_2022_PROGRAM_ID):
        bench.put(rotated.escrow(program), rotated.multisig_data, program)
    moves = [
        Transfer(token(bench, asset), bench.escrow_units(asset), rotated.escrow(bench.program(asset)))
        for asset in ASSETS
    ]

    made = message(bench, ("relayer", "policy"), payer, *moves)
    outcome = bench.offer(sign_partially(made, [payer, bench.relayer, bench.policy]))

    assert isinstance(outcome, TransactionMetadata), outcome
    assert memos(made) == [MEMO]
    for asset in ASSETS:
        assert bench.escrow_units(asset) == 0
        assert bench.units(asset, rotated.escrow(bench.program(asset))) == 100 * 10**asset.decimals


def test_all_of_it_happens_or_nothing(bench, recipient, payer):
    usdc, pyusd = (token(bench, asset) for asset in (Asset.USDC, Asset.PYUSD))
    too_much = Transfer(pyusd, 100 * 10**6 + 1, recipient)
    made = message(bench, ("owner", "policy"), payer, Transfer(usdc, 1, recipient), too_much)

    assert isinstance(bench.offer(sign_partially(made, [payer, bench.owner, bench.policy])), FailedTransactionMetadata)
    assert bench.units(Asset.USDC, recipient) == 0


# --- Signing apart ----------------------------------------------------------------------------------------------------
def test_each_signs_where_its_key_is_and_in_any_order(bench, recipient, payer):
    made = message(bench, ("owner", "policy"), payer, Transfer(token(bench, Asset.USDC), 1, recipient))
    whole = sign_partially(made, [payer, bench.owner, bench.policy])

    ours = sign_partially(made, [payer, bench.policy])
    theirs = sign_partially(made, [bench.owner])

    assert Transaction.from_bytes(ours).message == made
    assert find_missing_signers(ours) == [bench.owner.pubkey()]
    assert set(find_missing_signers(theirs)) == {payer.pubkey(), bench.policy.pubkey()}
    assert sign_further(ours, [bench.owner]) == sign_further(theirs, [bench.policy, payer]) == whole
    assert find_missing_signers(sign_partially(made, [])) == list(made.account_keys[:3])


def test_a_key_that_is_not_asked_for_signs_nothing(bench, recipient, payer):
    made = message(bench, ("owner", "policy"), payer, Transfer(token(bench, Asset.USDC), 1, recipient))

    with pytest.raises(ValueError, match=f"{bench.relayer.pubkey()} is not asked to sign"):
        sign_partially(made, [bench.relayer])


# --- What is not made -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "pair", [("relayer", "relayer"), ("owner", "owner"), ("owner", "stranger"), ("stranger", "policy")]
)
def test_no_message_is_made_for_others_than_two_of_the_three(bench, recipient, payer, pair):
    bench.stranger = Keypair()

    with pytest.raises(ValueError, match="two of the escrow's three signers"):
        message(bench, pair, payer, Transfer(token(bench, Asset.USDC), 1, recipient))


@pytest.mark.parametrize("units", [None, 0, -1])
def test_no_message_is_made_that_transfers_nothing(bench, recipient, payer, units):
    nothing = [] if units is None else [Transfer(token(bench, Asset.USDC), units, recipient)]

    with pytest.raises(ValueError, match="transfers something"):
        message(bench, ("owner", "relayer"), payer, *nothing)


@pytest.mark.parametrize("memo", ["", "pay_01m7w7cq32s9ezcpf00jhcevrn"])
def test_no_withdrawal_is_taken_for_a_payment(bench, recipient, payer, memo):
    with pytest.raises(ValueError, match="names no payment"):
        message(bench, ("owner", "relayer"), payer, Transfer(token(bench, Asset.USDC), 1, recipient), memo=memo)


def test_what_does_not_fit_into_one_transaction_is_refused(bench, payer):
    def moves(count):
        usdc = token(bench, Asset.USDC)
        return [Transfer(replace(usdc, mint=Keypair().pubkey()), 1, bench.relayer.pubkey()) for _ in range(count)]

    assert message(bench, ("owner", "relayer"), payer, *moves(4))
    with pytest.raises(ValueError, match="fewer tokens"):
        message(bench, ("owner", "relayer"), payer, *moves(6))


# --- What there is to take out ----------------------------------------------------------------------------------------
def test_what_the_escrow_holds_is_found_and_plain_lamports_with_it(nodes, truth):
    truth.accounts[HOLDERS[Asset.SOL]] = holder_account(Asset.SOL, 7, lamports=RENT + 10)
    truth.accounts[HOLDERS[Asset.PYUSD]] = holder_account(Asset.PYUSD, 5)
    chain = tell(nodes, truth)

    found = find_held(chain.nodes, chain.escrow)

    assert {asset: held.units for asset, held in found.items()} == {Asset.SOL: 10, Asset.PYUSD: 5}
    for asset, held in found.items():
        assert held.token == Token(MINTS[asset], PROGRAMS[asset], asset.decimals)


def test_what_the_escrow_holds_is_not_believed_of_one_node(nodes, truth):
    truth.accounts[HOLDERS[Asset.USDC]] = holder_account(Asset.USDC, 5)
    lie = holder_account(Asset.USDC, 4)

    def said(many, config):
        told = [lie if one == HOLDERS[Asset.USDC] else truth.account(one, config) for one in many]
        return truth.context(told, config)

    chain = tell(nodes, truth, 0, getMultipleAccounts=said)
    chain.escrow.find_accounts()

    with pytest.raises(ChainUnavailable):
        find_held(chain.nodes, chain.escrow)
