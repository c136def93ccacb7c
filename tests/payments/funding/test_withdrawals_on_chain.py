"""A withdrawal on real chains: the owner signs what is shown, the search of the history lands it, the books fit."""

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from django.conf import settings as configured
from solders.keypair import Keypair

from chains.solana.withdrawing import find_missing_signers, sign_further
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import to_base_units
from payments.funding import owner_transactions
from payments.funding.owner_transactions import (
    StillValid,
    cancel_checked,
    check_is_over,
    transaction_expires,
    transfer_to_sign,
)
from payments.funding.withdrawals import book_withdrawal, find_withdrawal
from payments.models import Withdrawal
from payments.proposals import CANCEL
from payments.reconciling.escrow_history import search_history
from payments.reconciling.outflow_booking import find_open_outflows
from payments.settling.next_states import HEIGHT_MARGIN
from policy.models import Agent
from staff.kinds import make
from tests.chains.adapter.evm_deployment import EvmDeployment
from tests.payments.reconciling.test_reconciliation_on_chain import on_evm
from tests.support.factories import make_agent
from tests.support.fake_chain import PATIENCE_S
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.localnets import SOLANA
from workshop.localnet.folder import open_folder


def test_what_an_evm_owner_signs_lands_and_the_books_fit(db, settings):
    scene = on_evm(Asset.USDC)
    assert isinstance(scene.chain, EvmDeployment)
    served = replace(configured.CHAINS[LOCALNET], escrow=scene.adapter.escrow.address, tokens=scene.chain.tokens)
    settings.CHAINS = {scene.name: served}
    agent = scene.make_agent()
    scene.fund(agent, 100)
    assert scene.reconcile().verdict == "ok"
    recipient = scene.chain.new_address()

    withdrawal = book_withdrawal(
        agent.id, amount=Decimal("30.5"), chain=scene.name, recipient=recipient, by="fiona", reason="Ticket 7"
    )
    row = scene.reconcile()
    assert (row.verdict, row.booked) == ("ok", 100)
    call = transfer_to_sign(withdrawal)["call"]
    scene.chain.as_owner((call["to"], call["data"]))
    row = scene.reconcile()

    withdrawal.refresh_from_db()
    assert (row.verdict, row.holds, row.booked, withdrawal.state) == ("ok", Decimal("69.5"), Decimal("69.5"), "landed")
    assert scene.chain.balance_of(recipient) == 30_500_000


# --- Solana -----------------------------------------------------------------------------------------------------------
def owner_of_the_localnet() -> Keypair:
    return Keypair.from_seed(bytes.fromhex(open_folder().keys()["SOLANA_OWNER_KEY"]))


def cancel(withdrawal: Withdrawal) -> None:
    make(CANCEL, {"withdrawal": withdrawal.reference}, by="fiona", reason="Wrong address")


def book(asset: Asset, amount: str) -> Withdrawal:
    agent = make_agent(asset=asset, balance=amount)
    return book_withdrawal(
        agent.id, amount=Decimal(amount), chain=SOLANA_LOCALNET, recipient=SOLANA.new_address(), by="f", reason="R"
    )


@pytest.mark.parametrize("asset", [Asset.USDC, Asset.PYUSD, Asset.SOL])
def test_what_a_solana_owner_signs_lacks_only_the_owners_signature(db, asset):
    withdrawal = book(asset, "0.5")
    assert transaction_expires(withdrawal)

    made = transfer_to_sign(withdrawal)

    raw = base64.b64decode(made["transaction"])
    owner = configured.CHAINS[SOLANA_LOCALNET].owner
    assert [str(key) for key in find_missing_signers(raw)] == [owner]
    assert withdrawal.reference.encode() in raw
    assert Withdrawal.objects.get(pk=withdrawal.pk).valid_until_height == made["validUntilHeight"]


def test_a_second_transaction_is_made_only_once_the_first_one_did_not_land(db):
    withdrawal = book(Asset.USDC, "0.5")
    transfer_to_sign(withdrawal)

    with pytest.raises(StillValid, match="may still be included"):
        transfer_to_sign(withdrawal)
    with pytest.raises(StillValid, match="may still be included"):
        transfer_to_sign(Withdrawal.objects.get(pk=withdrawal.pk))

    SOLANA.advance(150 + 2 * HEIGHT_MARGIN)
    search(lambda: SOLANA.final_height > (withdrawal.valid_until_height or 0) + 2 * HEIGHT_MARGIN)
    made = transfer_to_sign(withdrawal)
    assert Withdrawal.objects.get(pk=withdrawal.pk).valid_until_height == made["validUntilHeight"]


def test_what_the_owner_may_still_send_is_not_taken_back(db):
    withdrawal = book(Asset.USDC, "0.5")
    transfer_to_sign(withdrawal)

    with pytest.raises(StillValid, match="may still be included"):
        cancel(withdrawal)
    SOLANA.advance(150 + 2 * HEIGHT_MARGIN)
    search(lambda: SOLANA.final_height > (withdrawal.valid_until_height or 0) + 2 * HEIGHT_MARGIN)

    cancel(withdrawal)

    assert find_withdrawal(withdrawal.reference).state == "cancelled"


def test_nothing_is_given_back_for_which_a_transaction_is_made_meanwhile(db, monkeypatch):
    withdrawal = book(Asset.USDC, "0.5")

    def find_and_be_slow(reference):
        found = find_withdrawal(reference)
        transfer_to_sign(Withdrawal.objects.get(pk=found.pk))
        return found

    check_is_over(withdrawal)
    monkeypatch.setattr(owner_transactions, "find_withdrawal", find_and_be_slow)
    with pytest.raises(OperationRefused, match="was just made"):
        cancel_checked(withdrawal.reference, by="fiona", reason="Wrong address")
    monkeypatch.undo()
    with pytest.raises(StillValid, match="may still be included"):
        cancel_checked(withdrawal.reference, by="fiona", reason="Wrong address")

    assert Withdrawal.objects.get(pk=withdrawal.pk).state == "open"
    assert Agent.objects.get(pk=withdrawal.agent_id).balance == 0


def test_two_who_show_it_at_once_do_not_both_get_a_transaction(db):
    withdrawal = book(Asset.USDC, "0.5")
    other = Withdrawal.objects.get(pk=withdrawal.pk)
    transfer_to_sign(withdrawal)

    other.valid_until_height = None  # as it was read before
    with pytest.raises(StillValid, match="Another transaction was just made"):
        transfer_to_sign(other)


@pytest.mark.parametrize("asset", [Asset.USDC, Asset.SOL])
def test_what_a_solana_owner_signs_lands_once_it_is_final(db, asset):
    withdrawal, owner = book(asset, "0.5"), owner_of_the_localnet()
    SOLANA.rpc("requestAirdrop", str(owner.pubkey()), 10**9)
    held = SOLANA.held(asset)
    search(lambda: int(SOLANA.rpc("getBalance", str(owner.pubkey()))["value"]) > 0)

    raw = base64.b64decode(transfer_to_sign(withdrawal)["transaction"])
    signed = sign_further(raw, [owner])
    assert find_missing_signers(signed) == []
    SOLANA.rpc(
        "sendTransaction", base64.b64encode(signed).decode(), {"encoding": "base64", "preflightCommitment": "confirmed"}
    )
    search(lambda: Withdrawal.objects.get(pk=withdrawal.pk).state == "landed")

    assert held - SOLANA.held(asset) == to_base_units(Decimal("0.5"), asset)
    landed_tx = Withdrawal.objects.get(pk=withdrawal.pk).landed_tx
    assert not find_open_outflows(SOLANA_LOCALNET).filter(tx=landed_tx).exists()


def search(holds: Callable[[], bool]) -> None:
    """Let blocks pass, and search the escrow's history, until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come true"
        SOLANA.mine()
        search_history(SOLANA_LOCALNET, SOLANA.adapter)
