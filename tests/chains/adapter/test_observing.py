"""What the adapters see of a chain: finality, blocks, holdings, relayers, and what signing needs to know."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from chains.evm.preparing import GAS_LIMIT
from chains.port import ChainUnavailable, NonceState
from foundation.kernel.assets import Asset
from tests.chains.adapter.evm_deployment import DEPTH

FAR = 10**12


# --- On every chain ---------------------------------------------------------------------------------------------------
def test_what_is_deployed_is_what_is_configured(chain):
    assert chain.adapter().inspector.find_mismatches([]) == []


def test_a_final_block_is_not_ahead_of_the_chain_and_does_not_go_back(chain):
    before = chain.adapter().follower.find_finality()
    chain.mine()
    after = chain.adapter().follower.find_finality()

    assert 0 < before.block_number <= before.newest
    assert before.block_number <= after.block_number <= after.newest <= chain.height
    assert before.height <= after.height
    assert before.time <= after.time


def test_a_block_is_lost_if_it_is_no_longer_on_the_chain(chain):
    (submitter,) = chain.relayers()
    payment = chain.pay(submitter)
    landed = chain.land(payment)[payment.tx]
    known, ahead = (landed.block_number, landed.block_hash), (chain.height + 1_000, "not there yet")
    lost = chain.lost_block()
    adapter = chain.adapter()

    assert adapter.follower.find_lost([known]) == []
    assert adapter.follower.find_lost([lost]) == [lost[1]]
    assert adapter.follower.find_lost([ahead]) == []
    assert adapter.follower.find_lost([known, ahead, lost]) == [lost[1]]


def test_holdings_are_those_of_the_block_that_is_asked_for(chain):
    adapter = chain.adapter()
    before = adapter.follower.find_finality().block_number
    held = adapter.escrow.find_holdings(before)
    amounts = [f"2.{number}5" for number in range(len(chain.assets))]
    turns = chain.turns(len(amounts))
    landed = [
        chain.land(chain.pay(*one)).popitem()[1].block_number for one in zip(turns, amounts, chain.assets, strict=True)
    ]

    after = adapter.escrow.find_holdings(landed[-1])

    assert held.keys() == set(chain.assets)
    assert [held[asset] - after[asset] for asset in chain.assets] == [Decimal(amount) for amount in amounts]
    assert {asset: int(after[asset].scaleb(asset.decimals)) for asset in chain.assets} == {
        asset: chain.held(asset) for asset in chain.assets
    }
    # Also of blocks that are past, by an adapter that has seen nothing of them.
    assert chain.adapter().escrow.find_holdings(before) == held
    assert chain.adapter().escrow.find_holdings(landed[0]) == held | {
        chain.assets[0]: held[chain.assets[0]] - Decimal(amounts[0])
    }


def test_holdings_of_a_block_that_is_not_there_are_unknown(chain):
    with pytest.raises(ChainUnavailable):
        chain.adapter().escrow.find_holdings(chain.height + 1_000)


def test_a_relayer_shows_its_gas_money(chain):
    adapter, nobody = chain.adapter(), chain.new_address()
    (submitter,) = chain.relayers()
    before = adapter.observer.observe_relayers([submitter.relayer_address, nobody])

    chain.land(chain.pay(submitter))

    after = adapter.observer.observe_relayers([submitter.relayer_address])[submitter.relayer_address]
    had = before[submitter.relayer_address]
    assert after.balance == chain.gas_money(submitter.relayer_address) < had.balance
    # Fees may have fallen meanwhile: it is asked what was affordable at the fees of now.
    assert 1 <= after.affords <= had.balance // after.most_cost
    assert (before[nobody].balance, before[nobody].affords) == (0, 0)


# --- On EVM chains ----------------------------------------------------------------------------------------------------
def test_the_fees_leave_room_for_the_base_fee_to_rise(evm):
    height = evm.height

    state = evm.adapter().observer.observe()

    base_fee = int(evm.block(state["height"])["baseFeePerGas"], 16)
    assert height <= state["height"] <= evm.height
    assert 0 <= state["maxPriorityFeePerGas"] <= state["maxFeePerGas"]
    assert state["maxFeePerGas"] == 2 * base_fee + state["maxPriorityFeePerGas"]


def test_fees_above_the_highest_that_is_allowed_are_a_chain_that_cannot_be_prepared_for(evm):
    with pytest.raises(ChainUnavailable):
        evm.adapter(max_fee_gwei=0).observer.observe()


def test_a_relayer_shows_its_nonces_and_for_how_many_transactions_its_gas_money_is(evm):
    (submitter,) = evm.relayers()
    before = evm.adapter().observer.observe_relayers([submitter.relayer_address])[submitter.relayer_address]
    had_wei = evm.number("eth_getBalance", submitter.relayer_address, "latest")

    evm.land(evm.pay(submitter))

    after = evm.adapter().observer.observe_relayers([submitter.relayer_address])[submitter.relayer_address]
    assert (before.nonces, before.balance) == (NonceState(0, 0), Decimal(had_wei).scaleb(-18))
    assert 1 <= before.affords <= had_wei // GAS_LIMIT
    assert after.nonces == NonceState(1, 1)


def test_a_nonce_that_is_used_may_not_be_final_yet(evm):
    (submitter,) = evm.relayers()
    evm.land(evm.pay(submitter))

    sighting = evm.adapter(depth=FAR).observer.observe_relayers([submitter.relayer_address])[submitter.relayer_address]

    assert sighting.nonces == NonceState(1, 0)


def test_a_block_is_final_under_so_many_others(evm):
    before = evm.height

    finality = evm.adapter().follower.find_finality()

    assert before - DEPTH <= finality.block_number <= evm.height - DEPTH
    assert finality.time == datetime.fromtimestamp(int(evm.block(finality.block_number)["timestamp"], 16), UTC)


def test_the_first_block_is_final_on_a_chain_that_is_not_deep_enough(evm):
    assert evm.adapter(depth=FAR).follower.find_finality().block_number == 0


def test_the_node_says_what_is_final_where_it_can(evm):
    before = evm.block("finalized")
    if before is None:
        with pytest.raises(ChainUnavailable):
            evm.adapter(depth=None).follower.find_finality()
        return

    finality = evm.adapter(depth=None).follower.find_finality()

    assert int(before["number"], 16) <= finality.block_number <= int(evm.block("finalized")["number"], 16)


# --- On Solana --------------------------------------------------------------------------------------------------------
def test_what_is_signed_by_is_the_newest_blockhash_that_most_of_the_chain_stands_by(solana):
    before, height = solana.height, solana.final_height
    hashes = {solana.confirmed_blockhash()}

    state = solana.adapter().observer.observe()

    hashes.add(solana.confirmed_blockhash())
    assert state["blockhash"] in hashes or len(hashes) > 1
    assert height + 150 <= state["lastValidBlockHeight"] <= height + 150 + (solana.height - before) + 8
    # No block before that one can have what is signed now.
    assert state["slot"] <= solana.height
    assert state["tokens"][Asset.USDC]["program"] != state["tokens"][Asset.PYUSD]["program"]
    assert {token["objection"] for token in state["tokens"].values()} == {None}
    assert 0 < state["rentExempt"]["account"] < state["rentExempt"]["token"]


def test_the_height_is_that_of_the_final_block_and_not_its_slot(solana):
    before = solana.final_height

    finality = solana.adapter().follower.find_finality()

    assert before <= finality.height <= solana.final_height
    assert finality.height < finality.block_number


def test_of_payees_that_are_paid_in_sol_the_lamports_are_seen(solana):
    empty, funded, token = (solana.new_address() for _ in range(3))
    solana.give(funded, 12_345_678)

    payees = [(empty, Asset.SOL), (funded, Asset.SOL), (token, Asset.USDC)]
    seen = solana.adapter().payee_accounts.observe_payees(payees, {}, lambda _: ())

    nothing: dict[str, object] = {"opened": [], "closed": []}
    assert seen == {empty: {"lamports": 0} | nothing, funded: {"lamports": 12_345_678} | nothing, token: nothing}


def test_wallets_are_paid_and_other_accounts_are_objected_to(solana):
    adapter, (submitter,) = solana.adapter(), solana.relayers()
    payment = solana.pay(submitter)
    solana.land(payment)

    assert adapter.payee_accounts.find_objection(payment.order.recipient) is None
    assert adapter.payee_accounts.find_objection(solana.owner_address) is None
    others = [
        solana.tokens[Asset.USDC],
        solana.tokens[Asset.PYUSD],
        str(solana.account_of(payment.order.recipient, Asset.USDC)),
        str(solana.vault(Asset.SOL)),
        solana.escrow,
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    ]
    assert all(adapter.payee_accounts.find_objection(address) for address in others)
