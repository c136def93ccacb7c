"""What the adapter sees of a chain: fees, relayers, finality, blocks, holdings."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from allowance.kernel.assets import Asset
from payments.chains.base import ChainUnavailable, NonceSighting
from payments.chains.evm.signing import GAS_LIMIT
from tests.factories import new_address
from tests.payments.adapter.deployment import DEPTH

FAR = 10**12
OTHER_HASH = "0x" + "ab" * 32


def test_the_fees_leave_room_for_the_base_fee_to_rise(chain):
    height = chain.height

    state = chain.adapter().observe()

    base_fee = int(chain.block(state["height"])["baseFeePerGas"], 16)
    assert height <= state["height"] <= chain.height
    assert 0 <= state["maxPriorityFeePerGas"] <= state["maxFeePerGas"]
    assert state["maxFeePerGas"] == 2 * base_fee + state["maxPriorityFeePerGas"]


def test_fees_above_the_highest_that_is_allowed_are_a_chain_that_cannot_be_prepared_for(chain):
    with pytest.raises(ChainUnavailable):
        chain.adapter(max_fee_gwei=0).observe()


def test_a_relayer_shows_its_nonces_and_its_gas_money(chain):
    adapter, nobody = chain.adapter(), new_address()
    (turn,) = chain.relayers()
    before = adapter.observe_relayers([turn.relayer_address, nobody])
    had_wei = chain.number("eth_getBalance", turn.relayer_address, "latest")

    chain.land(chain.pay(turn))

    after = adapter.observe_relayers([turn.relayer_address])[turn.relayer_address]
    fresh = before[turn.relayer_address]
    assert (fresh.nonces, fresh.balance) == (NonceSighting(0, 0), Decimal(had_wei).scaleb(-18))
    assert 1 <= fresh.affords <= had_wei // GAS_LIMIT
    assert after.nonces == NonceSighting(1, 1)
    assert after.balance < fresh.balance
    assert (before[nobody].balance, before[nobody].affords, before[nobody].nonces) == (0, 0, NonceSighting(0, 0))


def test_a_nonce_that_is_used_may_not_be_final_yet(chain):
    (turn,) = chain.relayers()
    chain.land(chain.pay(turn))

    sighting = chain.adapter(depth=FAR).observe_relayers([turn.relayer_address])[turn.relayer_address]

    assert sighting.nonces == NonceSighting(1, 0)


def test_a_block_is_final_under_so_many_others(chain):
    before = chain.height

    finality = chain.adapter().find_finality()

    assert before - DEPTH <= finality.block_number <= chain.height - DEPTH
    assert finality.time == datetime.fromtimestamp(int(chain.block(finality.block_number)["timestamp"], 16), UTC)


def test_the_first_block_is_final_on_a_chain_that_is_not_deep_enough(chain):
    assert chain.adapter(depth=FAR).find_finality().block_number == 0


def test_the_node_says_what_is_final_where_it_can(chain):
    before = chain.block("finalized")
    if before is None:
        with pytest.raises(ChainUnavailable):
            chain.adapter(depth=None).find_finality()
        return

    finality = chain.adapter(depth=None).find_finality()

    assert int(before["number"], 16) <= finality.block_number <= int(chain.block("finalized")["number"], 16)


def test_a_block_is_lost_if_another_has_its_number(chain):
    number = chain.adapter().find_finality().block_number
    known, ahead = chain.block(number)["hash"].lower(), chain.height + 1_000
    adapter = chain.adapter()

    assert adapter.find_lost([(number, known)]) == []
    assert adapter.find_lost([(number, OTHER_HASH)]) == [OTHER_HASH]
    assert adapter.find_lost([(ahead, known)]) == []
    assert adapter.find_lost([(number, known), (ahead, known), (number, OTHER_HASH)]) == [OTHER_HASH]


def test_holdings_are_those_of_the_block_that_is_asked_for(chain):
    adapter = chain.adapter()
    (turn,) = chain.relayers()
    before = adapter.find_finality().block_number
    held = adapter.find_holdings(before)
    payment = chain.pay(turn, "2.25", Asset.EURC)

    landed = chain.land(payment)[payment.tx]

    assert held.keys() == {Asset.USDC, Asset.EURC}
    after = adapter.find_holdings(landed.block_number)
    assert (held[Asset.EURC] - after[Asset.EURC], held[Asset.USDC] - after[Asset.USDC]) == (Decimal("2.25"), 0)
    assert adapter.find_holdings(before) == held
    assert after[Asset.EURC] * 10**6 == chain.balance_of(chain.escrow, Asset.EURC)


def test_holdings_of_a_block_that_is_not_there_are_unknown(chain):
    with pytest.raises(ChainUnavailable):
        chain.adapter().find_holdings(chain.height + 1_000)
