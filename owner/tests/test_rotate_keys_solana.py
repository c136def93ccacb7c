"""`manage.py rotate_keys` on the real Solana chain: each runbook of docs/operate/keys.md, tried as it is written."""

import io
import json
from decimal import Decimal

import pytest
from django.core.management import call_command
from solders.signature import Signature
from solders.transaction import Transaction

from chains.port import DepositEvent
from chains.solana.derivation import relayer_keypair
from foundation.kernel.assets import Asset
from owner.escrow_transfers import book_transfer
from owner.tests.rotations import Keys, process, status
from owner.tests.solana_rotation import Escrow, give_sol, submit, time_passing
from payments.funding.deposits import record_deposits
from payments.lifecycle import PaymentStatus
from payments.models import Deposit, DepositCursor, Withdrawal
from payments.reconciling.escrow_history import search_history
from services.served_chains import solana_chain
from tests.support.ed25519 import sign_otherwise
from tests.support.localnets import SOLANA

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]


@pytest.fixture
def escrow():
    return Escrow()


def old(escrow):
    return {"OLD_RELAYER_SEED": escrow.keys.seed.hex(), "OLD_POLICY_SIGNER_SOLANA_KEY": escrow.keys.solana.hex()}


def sent_by_thief(seed, payment):
    """Sign a payment's message once more with a stolen relayer key, so that it has another id."""
    signed = Transaction.from_bytes(bytes(payment.settlements.latest("created_at").raw))
    thief = relayer_keypair(seed, 0)
    forged = sign_otherwise(thief.secret(), bytes(thief.pubkey()), bytes(signed.message))
    return bytes(Transaction.populate(signed.message, [Signature(forged), signed.signatures[1]]))


NEW_KEYS = {
    "both": lambda _old: Keys(),
    "the policy signer": lambda old: Keys(seed=old.seed),
    "the relayer": lambda old: Keys(solana=old.solana),
}


# --- Planned ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("choose", NEW_KEYS.values(), ids=NEW_KEYS)
def test_a_planned_rotation_settles_what_is_in_flight_and_moves_everything(escrow, choose):
    before, new, given = escrow.keys, choose(escrow.keys), old(escrow)
    give_sol(new.seed)
    payee = SOLANA.make_service()
    escrow.look()
    payment = escrow.pay(escrow.agents[Asset.USDC], payee, "1.50")

    waiting = escrow.rotate(new, given, "--no-wait").result
    assert not waiting["done"]
    assert "1 payments" in waiting["waitingFor"]
    with time_passing():
        escrow.work_until_nothing_is_in_flight()
        rotation = escrow.rotate(new, given)

    assert rotation.result["done"]
    assert (status(payment), escrow.has(payee)) == (PaymentStatus.SETTLED, 1_500_000)
    assert escrow.held(before) == {}
    escrow.go_on(new, rotation)
    escrow.check_books(new)
    assert escrow.balances == {Asset.USDC: Decimal("8.5"), Asset.SOL: 2}
    escrow.check_that_payments_go_on()
    assert DepositCursor.objects.get(chain=escrow.caip2).escrow == escrow.served.escrow


def test_what_customers_send_to_the_old_address_is_credited_and_moved_by_another_run(escrow):
    before, new, given, served = escrow.keys, Keys(), old(escrow), escrow.served_variables
    give_sol(new.seed)
    with time_passing():
        rotation = escrow.rotate(new, given)
    escrow.go_on(new, rotation)
    escrow.deposit(Asset.USDC, "5", before, **served)
    SOLANA.rpc("dev_advance", 40)

    with time_passing():
        again = escrow.rotate(new, given)
        escrow.work()

    assert again.result["done"]
    assert not again.variables
    assert escrow.held(before) == {}
    assert escrow.balances == {Asset.USDC: 15, Asset.SOL: 2}
    escrow.check_books(new)
    escrow.check_that_payments_go_on()


def test_a_move_is_no_deposit_even_if_the_next_escrow_sees_it_first(escrow):
    move = book_transfer(
        escrow.caip2, escrow=escrow.served.escrow, asset=Asset.USDC, amount=Decimal(10), recipient="x", by="test"
    )
    found = DepositEvent("tx", 1, 7, "somebody", "mint", Asset.USDC, Decimal(10), move.reference)
    less = DepositEvent("other", 1, 7, "somebody", "mint", Asset.USDC, Decimal(9), move.reference)

    assert record_deposits(escrow.caip2, [less, found], {}, escrow="the next one") == 1
    assert record_deposits(escrow.caip2, [found], {}, escrow="the next one") == 0

    move.refresh_from_db()
    assert (move.landed_tx, move.landed_block) == ("tx", 7)
    assert Deposit.objects.get(chain=escrow.caip2, tx="other").state == "aside"


# --- Theft ------------------------------------------------------------------------------------------------------------
def test_who_stole_the_relayers_seed_pays_nobody_twice_and_nothing_more_once_it_is_rotated(escrow):
    stolen, new, given = escrow.keys, Keys(solana=escrow.keys.solana), old(escrow)
    give_sol(new.seed)
    paid, unpaid = SOLANA.make_service(), SOLANA.make_service()
    escrow.look()
    first = escrow.pay(escrow.agents[Asset.USDC], paid, "1.00")
    second = escrow.pay(escrow.agents[Asset.USDC], unpaid, "2.00")
    # The thief is faster than we are, and under an id that we do not know.
    assert submit(sent_by_thief(stolen.seed, first))

    with time_passing():
        rotation = escrow.rotate(new, given, "--now")

    assert rotation.result["done"]
    assert not submit(sent_by_thief(stolen.seed, second))
    assert (status(first), escrow.has(paid)) == (PaymentStatus.SETTLED, 1_000_000)
    assert (status(second), escrow.has(unpaid)) == (PaymentStatus.FAILED, 0)
    assert escrow.held(stolen) == {}
    escrow.go_on(new, rotation)
    assert escrow.balances == {Asset.USDC: 9, Asset.SOL: 2}
    escrow.check_books(new)
    escrow.check_that_payments_go_on()


def test_who_stole_the_policy_key_moves_nothing(escrow):
    stolen, new, given = escrow.keys, Keys(seed=escrow.keys.seed), old(escrow)
    unpaid = SOLANA.make_service()
    escrow.look()
    payment = escrow.pay(escrow.agents[Asset.USDC], unpaid, "2.00")

    with time_passing():
        rotation = escrow.rotate(new, given, "--now")

    assert rotation.result["done"]
    assert (status(payment), escrow.has(unpaid)) == (PaymentStatus.FAILED, 0)
    # Signed by both, but for an escrow that holds nothing any more.
    assert not submit(bytes(payment.settlements.get().raw))
    assert escrow.held(stolen) == {}
    escrow.go_on(new, rotation)
    assert escrow.balances == {Asset.USDC: 10, Asset.SOL: 2}
    escrow.check_books(new)
    escrow.check_that_payments_go_on()


# --- Loss -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lost", ["the relayer's seed", "the policy key"])
def test_a_lost_key_is_replaced_by_the_other_one_and_the_owner(escrow, lost):
    is_seed = lost == "the relayer's seed"
    before = escrow.keys
    new = Keys(solana=before.solana) if is_seed else Keys(seed=before.seed)
    give_sol(new.seed)
    unpaid = SOLANA.make_service()
    escrow.look()
    payment = escrow.pay(escrow.agents[Asset.USDC], unpaid, "2.00")

    rotation = escrow.rotate_with_owner(new, {})

    assert (status(payment), escrow.has(unpaid)) == (PaymentStatus.FAILED, 0)
    assert escrow.held(before) == {}
    moves = Withdrawal.objects.filter(chain=escrow.caip2, agent=None)
    assert moves.filter(cancelled_at__isnull=False).count() == 1
    escrow.go_on(new, rotation)
    assert escrow.balances == {Asset.USDC: 10, Asset.SOL: 2}
    escrow.check_books(new)
    escrow.check_that_payments_go_on()


# --- What is not done -------------------------------------------------------------------------------------------------
def test_without_two_of_the_three_keys_nothing_is_done(escrow):
    new = Keys()
    give_sol(new.seed)

    failed = escrow.rotate(new, {})

    assert "two of three must sign" in failed.error
    assert not Withdrawal.objects.filter(chain=escrow.caip2).exists()


def test_processes_that_are_switched_too_early_end_nothing_that_the_old_escrow_could_still_have_paid(escrow):
    new, payee = Keys(seed=escrow.keys.seed), SOLANA.make_service()
    escrow.look()
    payment = escrow.pay(escrow.agents[Asset.USDC], payee, "1.00")
    # Paid, under an id that only the old escrow's history knows.
    assert submit(sent_by_thief(escrow.keys.seed, payment))
    was, served = escrow.keys, escrow.served_variables
    out = io.StringIO()
    with process(new, escrow.served):
        call_command("deploy_escrow", "solana-localnet", owner=served["owner"], stdout=out, stderr=io.StringIO())
    made = json.loads(out.getvalue().splitlines()[-1])
    escrow.restart(new, escrow=made["escrow"], first_block=made["block"])

    SOLANA.rpc("dev_advance", 400)
    for _ in range(3):
        escrow.work()

    assert status(payment) == PaymentStatus.APPROVED
    assert payment.settlements.count() == 1
    escrow.restart(was, **served)
    with time_passing():
        escrow.work_until_nothing_is_in_flight()
    assert (status(payment), escrow.has(payee)) == (PaymentStatus.SETTLED, 1_000_000)


def test_the_search_of_an_escrow_goes_on_behind_what_was_known_of_another(escrow):
    with escrow.running():
        search_history(escrow.caip2, solana_chain(escrow.caip2))
        cursors = DepositCursor.objects.filter(chain=escrow.caip2)
        assert cursors.get().complete_at is not None
        cursors.update(escrow="another")
        search_history(escrow.caip2, solana_chain(escrow.caip2))
    assert cursors.get().escrow == escrow.served.escrow
