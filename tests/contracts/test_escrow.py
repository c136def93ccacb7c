"""The escrow contract on a real EVM: what it pays, and everything it refuses."""

from dataclasses import replace

import pytest

from tests.contracts.conftest import CAP, ESCROW, FUNDS, NOON, payment_id

ZERO = "0x" + "00" * 20
DAY = 86_400
CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

NOT_A_RELAYER = "escrow: not a relayer"
EXPIRED = "escrow: expired"
SETTLED = "escrow: already settled"
WRONG_SIGNATURE = "escrow: wrong policy signature"
OVER_CAP = "escrow: over daily cap"
RECIPIENT = "escrow: recipient refused"
TOKEN = "escrow: token refused"
ZERO_AMOUNT = "escrow: zero amount"
NO_AGENT = "escrow: no agent"
NOTHING_ARRIVED = "escrow: nothing arrived"
ZERO_ADDRESS = "escrow: zero address"
TWO_ROLES = "escrow: one key for two roles"
PAUSED = "pausable: contract is paused"
NOT_OWNER = "ownable: caller is not the owner"
NOT_NEW_OWNER = "ownable_2step: caller is not the new owner"
BAD_SIGNATURE = "ecdsa: invalid signature"
HIGH_S = "ecdsa: invalid signature `s` value"
CALL_BACK_REFUSED = "token: call back refused"
NO_REASON = ""


# What a payment does.


def test_a_payment_with_both_keys_moves_exactly_its_amount(world):
    payment = world.payment(amount=250_000)

    receipt = world.send(world.pay(payment), world.relayer)

    assert world.balance(world.recipient.address) == 250_000
    assert world.balance(world.escrow.address) == FUNDS - 250_000
    assert world.settled(payment)
    assert len(receipt.logs) == 2
    assert world.events(world.escrow.events.Paid, receipt) == [
        {
            "paymentId": payment.id,
            "token": world.token.address,
            "recipient": world.recipient.address,
            "amount": 250_000,
        }
    ]
    assert world.events(world.token.events.Transfer, receipt) == [
        {
            "sender": world.escrow.address,
            "receiver": world.recipient.address,
            "value": 250_000,
        }
    ]


def test_every_enabled_relayer_may_submit(world):
    world.send(world.pay(world.payment()), world.other_relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_a_payment_of_one_base_unit_is_paid(world):
    world.send(world.pay(world.payment(amount=1)), world.relayer)

    assert world.balance(world.recipient.address) == 1


def test_a_payment_is_paid_up_to_and_including_its_deadline(world):
    world.next_block_at(NOON + 60)

    world.send(world.pay(world.payment(deadline=NOON + 60)), world.relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_a_token_without_return_value_is_paid(world, misbehaving):
    token = misbehaving("NoReturnToken")

    receipt = world.send(world.pay(world.payment(token=token.address)), world.relayer)

    assert world.balance(world.recipient.address, token) == 250_000
    assert len(world.events(world.escrow.events.Paid, receipt)) == 1


def test_a_payment_fits_into_the_gas_a_relayer_sets_aside(world):
    first, second = world.payment(id=payment_id(1)), world.payment(id=payment_id(2))

    first_gas = world.send(world.pay(first), world.relayer).gasUsed
    second_gas = world.send(world.pay(second), world.relayer).gasUsed

    assert first_gas < 150_000
    assert second_gas < 110_000


# Neither key alone.


def test_a_payment_from_someone_who_is_not_a_relayer_is_refused(world):
    world.assert_refused(world.pay(world.payment()), world.stranger, NOT_A_RELAYER)


def test_the_policy_signer_alone_moves_nothing(world):
    world.assert_refused(world.pay(world.payment()), world.signer, NOT_A_RELAYER)


def test_the_owner_is_not_a_relayer(world):
    world.assert_refused(world.pay(world.payment()), world.owner, NOT_A_RELAYER)


def test_a_relayer_alone_moves_nothing(world):
    payment = world.payment()
    own_signature = world.sign(payment, signer=world.relayer)

    world.assert_refused(world.pay(payment, own_signature), world.relayer, WRONG_SIGNATURE)


def test_a_payment_signed_by_a_wrong_signer_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment, signer=world.stranger)

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_disabled_relayer_is_refused(world):
    world.send(world.escrow.functions.setRelayer(world.relayer.address, False), world.owner)

    world.assert_refused(world.pay(world.payment()), world.relayer, NOT_A_RELAYER)


@pytest.mark.parametrize("field", ["id", "token", "recipient", "amount", "deadline"])
def test_a_payment_that_differs_from_what_was_signed_is_refused(world, misbehaving, field):
    other = {
        "id": payment_id(2),
        "token": misbehaving("NoReturnToken").address,
        "recipient": world.stranger.address,
        "amount": 250_001,
        "deadline": NOON + 3_601,
    }
    signature = world.sign(world.payment())
    changed = world.payment(**{field: other[field]})

    world.assert_refused(world.pay(changed, signature), world.relayer, WRONG_SIGNATURE)


# The signature and its domain.


def test_the_contract_publishes_the_domain_that_is_signed(world):
    fields, name, version, chain_id, contract, salt, extensions = world.escrow.functions.eip712Domain().call()

    assert fields == b"\x0f"  # name, version, chainId, verifyingContract
    assert (name, version) == ("Allowance Escrow", "1")
    assert (chain_id, contract) == (world.w3.eth.chain_id, world.escrow.address)
    assert (salt, extensions) == (bytes(32), [])


@pytest.mark.parametrize(
    "domain", [{"chainId": 1}, {"name": "Allowance"}, {"version": "2"}], ids=lambda d: next(iter(d))
)
def test_a_signature_for_another_domain_is_refused(world, domain):
    payment = world.payment()
    signature = world.sign(payment, **domain)

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_signature_for_another_escrow_is_refused(world):
    payment = world.payment()
    other = world.deploy_escrow()
    for_the_other = world.sign(payment, verifyingContract=other.address)

    world.assert_refused(world.pay(payment, for_the_other), world.relayer, WRONG_SIGNATURE)


def test_a_signature_is_refused_by_the_same_contract_on_a_chain_that_split_off(world):
    payment = world.payment()
    signature = world.sign(payment)
    world.tester.backend.chain.chain_id += 1

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)
    signed_for_the_split = world.sign(payment, chainId=world.tester.backend.chain.chain_id)
    world.send(world.pay(payment, signed_for_the_split), world.relayer)


def test_the_mirrored_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment)
    s, v = int.from_bytes(signature[32:64]), signature[64]
    mirrored = signature[:32] + (CURVE_ORDER - s).to_bytes(32) + bytes([55 - v])

    world.assert_refused(world.pay(payment, mirrored), world.relayer, HIGH_S)


def test_the_compact_form_of_a_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment)
    s, v = int.from_bytes(signature[32:64]), signature[64]
    compact = signature[:32] + (s | (v - 27) << 255).to_bytes(32)

    world.assert_refused(world.pay(payment, compact), world.relayer, WRONG_SIGNATURE)


@pytest.mark.parametrize("length", [0, 1, 63, 64])
def test_a_short_signature_is_refused(world, length):
    payment = world.payment()
    signature = world.sign(payment)[:length]

    world.assert_refused(world.pay(payment, signature), world.relayer, WRONG_SIGNATURE)


def test_a_long_signature_is_refused(world):
    payment = world.payment()
    signature = world.sign(payment) + b"\0"

    world.assert_refused(world.pay(payment, signature), world.relayer, NO_REASON)


@pytest.mark.parametrize("v", [0, 1, 26, 29, 255])
def test_a_signature_with_an_unknown_recovery_byte_is_refused(world, v):
    payment = world.payment()
    signature = world.sign(payment)[:64] + bytes([v])

    world.assert_refused(world.pay(payment, signature), world.relayer, BAD_SIGNATURE)


def test_a_signature_of_zeros_is_refused(world):
    world.assert_refused(world.pay(world.payment(), bytes(65)), world.relayer, BAD_SIGNATURE)


# Once, and in time.


def test_a_replayed_payment_id_is_refused(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)

    world.assert_refused(world.pay(payment), world.relayer, SETTLED)
    world.assert_refused(world.pay(payment), world.other_relayer, SETTLED)


def test_a_replayed_payment_id_is_refused_for_anything_else_that_is_signed(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)
    changed = replace(payment, recipient=world.stranger.address, amount=1, deadline=NOON + 7_200)

    world.assert_refused(world.pay(changed), world.relayer, SETTLED)


def test_a_settled_payment_stays_settled_when_the_policy_signer_changes(world):
    payment = world.payment()
    world.send(world.pay(payment), world.relayer)
    world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)
    signed_anew = world.sign(payment, signer=world.new_signer)

    world.assert_refused(world.pay(payment, signed_anew), world.relayer, SETTLED)


def test_a_refused_payment_can_still_be_paid(world):
    payment = world.payment()
    world.assert_refused(world.pay(payment, bytes(65)), world.relayer, BAD_SIGNATURE)

    assert not world.settled(payment)
    world.send(world.pay(payment), world.relayer)


def test_an_expired_payment_is_refused(world):
    world.next_block_at(NOON + 61)

    world.assert_refused(world.pay(world.payment(deadline=NOON + 60)), world.relayer, EXPIRED)


# What may be paid to whom.


@pytest.mark.parametrize("who", ["zero", "escrow", "token"])
def test_a_payment_to_a_recipient_that_cannot_spend_it_is_refused(world, who):
    recipient = {"zero": ZERO, "escrow": world.escrow.address, "token": world.token.address}[who]

    world.assert_refused(world.pay(world.payment(recipient=recipient)), world.relayer, RECIPIENT)


def test_a_payment_of_nothing_is_refused(world):
    world.assert_refused(world.pay(world.payment(amount=0)), world.relayer, ZERO_AMOUNT)


def test_a_payment_above_the_balance_is_refused(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, FUNDS + 1), world.owner)
    payment = world.payment(amount=FUNDS + 1)

    world.assert_refused(world.pay(payment), world.relayer, "erc20: transfer amount exceeds balance")
    assert not world.settled(payment)


def test_a_payment_in_a_token_that_answers_false_is_refused(world, misbehaving):
    payment = world.payment(token=misbehaving("FalseToken").address)

    world.assert_refused(world.pay(payment), world.relayer, TOKEN)
    assert not world.settled(payment)


def test_a_payment_in_a_token_that_is_no_contract_is_refused(world):
    nowhere = world.stranger.address
    world.send(world.escrow.functions.setDailyCap(nowhere, CAP), world.owner)

    world.assert_refused(world.pay(world.payment(token=nowhere)), world.relayer, NO_REASON)


def test_ether_is_refused(world):
    transaction = world.w3.eth.send_transaction(
        {"from": world.stranger.address, "to": world.escrow.address, "value": 1, "gas": 100_000}
    )

    assert world.w3.eth.get_transaction_receipt(transaction).status == 0
    assert world.w3.eth.get_balance(world.escrow.address) == 0


# The daily cap.


def test_a_payment_just_below_the_daily_cap_is_paid(world):
    world.send(world.pay(world.payment(amount=CAP - 1)), world.relayer)

    assert world.balance(world.recipient.address) == CAP - 1


def test_a_payment_equal_to_the_daily_cap_is_paid(world):
    world.send(world.pay(world.payment(amount=CAP)), world.relayer)

    assert world.balance(world.recipient.address) == CAP


def test_a_payment_above_the_daily_cap_is_refused(world):
    world.assert_refused(world.pay(world.payment(amount=CAP + 1)), world.relayer, OVER_CAP)


def test_the_payments_of_a_day_count_together(world):
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP - 10)), world.relayer)

    above = world.payment(id=payment_id(2), amount=11)
    world.assert_refused(world.pay(above), world.other_relayer, OVER_CAP)
    world.send(world.pay(replace(above, amount=10)), world.other_relayer)
    world.assert_refused(world.pay(world.payment(id=payment_id(3), amount=1)), world.relayer, OVER_CAP)
    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_the_daily_cap_starts_afresh_at_midnight_utc_and_not_before(world):
    midnight = NOON + DAY // 2
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP)), world.relayer)
    tomorrow = world.payment(id=payment_id(2), amount=CAP, deadline=midnight + DAY)

    world.next_block_at(midnight - 1)
    world.assert_refused(world.pay(tomorrow), world.relayer, OVER_CAP)
    assert world.w3.eth.get_block("latest").timestamp == midnight - 1

    world.send(world.pay(tomorrow), world.relayer)
    assert world.w3.eth.get_block("latest").timestamp == midnight
    assert world.escrow.functions.paidToday(world.token.address).call() == CAP


def test_a_token_without_a_cap_cannot_be_paid(world, compiled):
    token = world.deploy_token(compiled["NoReturnToken"])
    world.send(token.functions.mint(world.escrow.address, FUNDS), world.deployer)

    world.assert_refused(world.pay(world.payment(token=token.address, amount=1)), world.relayer, OVER_CAP)


def test_a_cap_of_zero_means_nothing(world):
    world.send(world.escrow.functions.setDailyCap(world.token.address, 0), world.owner)

    world.assert_refused(world.pay(world.payment(amount=1)), world.relayer, OVER_CAP)


def test_a_cap_below_what_is_already_paid_stops_the_day(world):
    world.send(world.pay(world.payment(id=payment_id(1), amount=500)), world.relayer)
    world.send(world.escrow.functions.setDailyCap(world.token.address, 499), world.owner)

    world.assert_refused(world.pay(world.payment(id=payment_id(2), amount=1)), world.relayer, OVER_CAP)


def test_an_amount_that_would_overflow_the_count_is_over_the_cap(world):
    most = 2**256 - 1
    world.send(world.escrow.functions.setDailyCap(world.token.address, most), world.owner)
    world.send(world.pay(world.payment(id=payment_id(1), amount=1)), world.relayer)

    world.assert_refused(world.pay(world.payment(id=payment_id(2), amount=most)), world.relayer, OVER_CAP)


def test_each_token_has_its_own_cap(world, misbehaving):
    token = misbehaving("NoReturnToken")
    world.send(world.pay(world.payment(id=payment_id(1), amount=CAP)), world.relayer)

    world.send(world.pay(world.payment(id=payment_id(2), token=token.address, amount=CAP)), world.relayer)

    assert world.balance(world.recipient.address, token) == CAP


def test_a_refused_transfer_does_not_count_against_the_cap(world, misbehaving):
    token = misbehaving("FalseToken")
    world.assert_refused(world.pay(world.payment(token=token.address)), world.relayer, TOKEN)

    assert world.escrow.functions.paidToday(token.address).call() == 0


# Re-entrant tokens. The token is a relayer and holds a second payment that is valid in every
# respect: nothing but the lock stands between it and the money.


@pytest.fixture
def reentrant(world, misbehaving):
    token = misbehaving("ReentrantToken")
    world.send(world.escrow.functions.setRelayer(token.address, True), world.owner)
    return token


def arm(world, token, call, *, insist):
    message = bytes.fromhex(call._encode_transaction_data()[2:])
    world.send(token.functions.arm(world.escrow.address, message, insist), world.stranger)


def test_a_token_that_pays_again_while_it_is_being_paid_is_refused(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=True)

    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)

    assert not world.settled(first)
    assert not world.settled(second)


def test_a_token_that_hides_its_refused_second_payment_is_paid_once(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=False)

    world.send(world.pay(first), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.balance(world.recipient.address, reentrant) == first.amount
    assert world.settled(first)
    assert not world.settled(second)


def test_the_second_payment_of_the_reentrant_token_is_valid_outside_of_the_first(world, reentrant):
    first = world.payment(id=payment_id(1), token=reentrant.address)
    second = world.payment(id=payment_id(2), token=reentrant.address)
    arm(world, reentrant, world.pay(second), insist=True)
    world.assert_refused(world.pay(first), world.relayer, CALL_BACK_REFUSED)

    world.send(reentrant.functions.strike(), world.stranger)

    assert world.settled(second)


def test_a_token_that_pays_the_same_payment_again_is_paid_once(world, reentrant):
    payment = world.payment(token=reentrant.address)
    arm(world, reentrant, world.pay(payment), insist=False)

    world.send(world.pay(payment), world.relayer)

    assert reentrant.functions.attempts().call() == 1
    assert world.balance(world.recipient.address, reentrant) == payment.amount


def test_a_payment_is_settled_before_its_money_moves(world, reentrant):
    payment = world.payment(token=reentrant.address)
    arm(world, reentrant, world.escrow.functions.settled(payment.id), insist=True)

    world.send(world.pay(payment), world.relayer)

    assert int.from_bytes(reentrant.functions.answer().call()) == 1


def test_a_token_that_pays_while_it_is_being_deposited_is_refused(world, reentrant):
    world.send(reentrant.functions.mint(world.depositor.address, 500), world.deployer)
    arm(world, reentrant, world.pay(world.payment()), insist=True)

    world.assert_refused(world.deposit(reentrant, 500), world.depositor, CALL_BACK_REFUSED)


def test_a_token_that_deposits_inside_a_deposit_is_not_credited_twice(world, reentrant):
    world.send(reentrant.functions.mint(world.depositor.address, 500), world.deployer)
    world.send(reentrant.functions.mint(reentrant.address, 500), world.deployer)
    arm(world, reentrant, world.deposit(reentrant, 500), insist=False)

    receipt = world.send(world.deposit(reentrant, 500), world.depositor)

    assert reentrant.functions.attempts().call() == 1
    assert [event["amount"] for event in world.events(world.escrow.events.Deposited, receipt)] == [500]
    assert world.balance(world.escrow.address, reentrant) == FUNDS + 500


def test_a_token_that_pays_while_it_is_being_withdrawn_is_refused(world, reentrant):
    arm(world, reentrant, world.pay(world.payment()), insist=True)
    withdrawal = world.escrow.functions.withdraw(reentrant.address, world.stranger.address, 1)

    world.assert_refused(withdrawal, world.owner, CALL_BACK_REFUSED)


# Deposits.


@pytest.fixture
def depositor(world):
    world.send(world.token.functions.mint(world.depositor.address, 5_000), world.deployer)
    world.send(world.token.functions.approve(world.escrow.address, 1_000), world.depositor)
    return world.depositor


def test_a_deposit_pulls_exactly_its_amount_and_names_the_agent(world, depositor):
    receipt = world.send(world.deposit(world.token, 1_000, agent="agent-7"), depositor)

    assert world.balance(depositor.address) == 4_000
    assert world.balance(world.escrow.address) == FUNDS + 1_000
    assert world.events(world.escrow.events.Deposited, receipt) == [
        {
            "depositor": depositor.address,
            "token": world.token.address,
            "agent": "agent-7",
            "amount": 1_000,
        }
    ]


def test_an_agent_name_of_1024_bytes_is_kept_whole(world, depositor):
    receipt = world.send(world.deposit(world.token, 1, agent="ä" * 512), depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["agent"] == "ä" * 512


def test_an_agent_name_above_1024_bytes_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1, agent="a" * 1025), depositor, NO_REASON)


def test_a_deposit_without_an_agent_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1, agent=""), depositor, NO_AGENT)


def test_a_deposit_of_nothing_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 0), depositor, ZERO_AMOUNT)


def test_a_deposit_above_what_was_approved_is_refused(world, depositor):
    world.assert_refused(world.deposit(world.token, 1_001), depositor, "erc20: insufficient allowance")


def test_a_deposit_of_a_token_without_return_value_is_credited(world, misbehaving):
    token = misbehaving("NoReturnToken")
    world.send(token.functions.mint(world.depositor.address, 500), world.deployer)

    receipt = world.send(world.deposit(token, 500), world.depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["amount"] == 500
    assert world.balance(world.escrow.address, token) == FUNDS + 500


def test_a_deposit_of_a_token_that_answers_false_is_refused(world, misbehaving):
    token = misbehaving("FalseToken")
    world.send(token.functions.mint(world.depositor.address, 500), world.deployer)

    world.assert_refused(world.deposit(token, 500), world.depositor, TOKEN)


def test_a_deposit_of_a_token_with_a_fee_credits_what_arrived(world, misbehaving):
    token = misbehaving("FeeToken", 30)
    world.send(token.functions.mint(world.depositor.address, 1_000), world.deployer)

    receipt = world.send(world.deposit(token, 1_000), world.depositor)

    [deposited] = world.events(world.escrow.events.Deposited, receipt)
    assert deposited["amount"] == 970
    assert world.balance(world.escrow.address, token) == FUNDS + 970


def test_a_deposit_of_which_nothing_arrives_is_refused(world, misbehaving):
    token = misbehaving("FeeToken", 30)
    world.send(token.functions.mint(world.depositor.address, 1_000), world.deployer)

    world.assert_refused(world.deposit(token, 30), world.depositor, NOTHING_ARRIVED)


# Pausing.


@pytest.fixture
def paused(world):
    world.send(world.escrow.functions.pause(), world.owner)
    assert world.escrow.functions.paused().call()


def test_a_payment_while_paused_is_refused(world, paused):
    world.assert_refused(world.pay(world.payment()), world.relayer, PAUSED)


def test_a_deposit_while_paused_is_refused(world, depositor, paused):
    world.assert_refused(world.deposit(world.token, 1_000), depositor, PAUSED)


def test_a_payment_is_paid_again_after_the_pause(world, paused):
    world.send(world.escrow.functions.unpause(), world.owner)

    world.send(world.pay(world.payment()), world.relayer)

    assert world.balance(world.recipient.address) == 250_000


def test_the_owner_can_withdraw_while_paused(world, paused):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, FUNDS)

    world.send(call, world.owner)

    assert world.balance(world.stranger.address) == FUNDS


# Withdrawing.


def test_a_withdrawal_moves_exactly_its_amount(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, 77)

    receipt = world.send(call, world.owner)

    assert world.balance(world.stranger.address) == 77
    assert world.balance(world.escrow.address) == FUNDS - 77
    assert world.events(world.escrow.events.Withdrawn, receipt) == [
        {"token": world.token.address, "to": world.stranger.address, "amount": 77}
    ]


def test_a_withdrawal_does_not_count_against_the_cap(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, CAP + 1)

    world.send(call, world.owner)

    assert world.escrow.functions.paidToday(world.token.address).call() == 0


@pytest.mark.parametrize("who", ["zero", "escrow", "token"])
def test_a_withdrawal_to_a_recipient_that_cannot_spend_it_is_refused(world, who):
    to = {"zero": ZERO, "escrow": world.escrow.address, "token": world.token.address}[who]

    world.assert_refused(world.escrow.functions.withdraw(world.token.address, to, 1), world.owner, RECIPIENT)


def test_a_withdrawal_of_nothing_is_refused(world):
    call = world.escrow.functions.withdraw(world.token.address, world.stranger.address, 0)

    world.assert_refused(call, world.owner, ZERO_AMOUNT)


def test_a_withdrawal_of_a_token_that_answers_false_is_refused(world, misbehaving):
    token = misbehaving("FalseToken")
    call = world.escrow.functions.withdraw(token.address, world.stranger.address, 1)

    world.assert_refused(call, world.owner, TOKEN)


# The owner's settings.


def owner_calls(world):
    functions = world.escrow.functions
    someone = world.stranger.address
    return {
        "setRelayer": functions.setRelayer(someone, True),
        "setPolicySigner": functions.setPolicySigner(someone),
        "setDailyCap": functions.setDailyCap(world.token.address, FUNDS),
        "withdraw": functions.withdraw(world.token.address, someone, 1),
        "pause": functions.pause(),
        "unpause": functions.unpause(),
        "transfer_ownership": functions.transfer_ownership(someone),
    }


@pytest.mark.parametrize("who", ["stranger", "deployer", "relayer", "signer"])
@pytest.mark.parametrize(
    "name",
    [
        "setRelayer",
        "setPolicySigner",
        "setDailyCap",
        "withdraw",
        "pause",
        "unpause",
        "transfer_ownership",
    ],
)
def test_what_the_owner_may_do_is_refused_to_everyone_else(world, name, who):
    world.assert_refused(owner_calls(world)[name], getattr(world, who), NOT_OWNER)


def test_enabling_and_disabling_a_relayer_is_announced(world):
    set_relayer = world.escrow.functions.setRelayer
    someone = world.stranger.address

    enabled = world.send(set_relayer(someone, True), world.owner)
    assert world.escrow.functions.relayers(someone).call() is True
    disabled = world.send(set_relayer(someone, False), world.owner)
    assert world.escrow.functions.relayers(someone).call() is False

    event = world.escrow.events.RelayerSet
    assert world.events(event, enabled) == [{"relayer": someone, "enabled": True}]
    assert world.events(event, disabled) == [{"relayer": someone, "enabled": False}]


def test_setting_a_cap_is_announced(world):
    receipt = world.send(world.escrow.functions.setDailyCap(world.token.address, 42), world.owner)

    assert world.escrow.functions.dailyCap(world.token.address).call() == 42
    assert world.events(world.escrow.events.DailyCapSet, receipt) == [{"token": world.token.address, "cap": 42}]


def test_after_a_rotation_only_the_new_policy_signer_counts(world):
    payment = world.payment()
    by_the_old = world.sign(payment)
    by_the_new = world.sign(payment, signer=world.new_signer)
    world.assert_refused(world.pay(payment, by_the_new), world.relayer, WRONG_SIGNATURE)

    receipt = world.send(world.escrow.functions.setPolicySigner(world.new_signer.address), world.owner)

    assert world.events(world.escrow.events.PolicySignerSet, receipt) == [
        {"previous": world.signer.address, "current": world.new_signer.address}
    ]
    assert world.escrow.functions.policySigner().call() == world.new_signer.address
    world.assert_refused(world.pay(payment, by_the_old), world.relayer, WRONG_SIGNATURE)
    world.send(world.pay(payment, by_the_new), world.relayer)


def test_the_zero_address_gets_no_role(world):
    functions = world.escrow.functions

    world.assert_refused(functions.setRelayer(ZERO, True), world.owner, ZERO_ADDRESS)
    world.assert_refused(functions.setPolicySigner(ZERO), world.owner, ZERO_ADDRESS)


def test_one_key_cannot_be_relayer_and_policy_signer(world):
    functions = world.escrow.functions

    world.assert_refused(functions.setRelayer(world.signer.address, True), world.owner, TWO_ROLES)
    world.assert_refused(functions.setPolicySigner(world.relayer.address), world.owner, TWO_ROLES)


def test_a_former_relayer_may_become_policy_signer(world):
    functions = world.escrow.functions
    world.send(functions.setRelayer(world.other_relayer.address, False), world.owner)

    world.send(functions.setPolicySigner(world.other_relayer.address), world.owner)

    assert functions.policySigner().call() == world.other_relayer.address


# Ownership.


def test_ownership_passes_only_when_the_new_owner_accepts(world):
    functions = world.escrow.functions
    world.send(functions.transfer_ownership(world.new_owner.address), world.owner)
    assert functions.owner().call() == world.owner.address
    assert functions.pending_owner().call() == world.new_owner.address
    world.assert_refused(functions.pause(), world.new_owner, NOT_OWNER)

    world.send(functions.accept_ownership(), world.new_owner)

    assert functions.owner().call() == world.new_owner.address
    assert functions.pending_owner().call() == ZERO
    world.assert_refused(functions.pause(), world.owner, NOT_OWNER)
    world.send(functions.pause(), world.new_owner)


def test_nobody_else_can_accept_the_ownership(world):
    functions = world.escrow.functions
    world.send(functions.transfer_ownership(world.new_owner.address), world.owner)

    world.assert_refused(functions.accept_ownership(), world.stranger, NOT_NEW_OWNER)


def test_the_ownership_cannot_be_given_up(world):
    assert "renounce_ownership" not in {entry.get("name") for entry in ESCROW["abi"]}


# Deployment.


def test_a_new_escrow_has_the_roles_it_was_given_and_pays_nothing(world):
    functions = world.escrow.functions

    assert functions.owner().call() == world.owner.address
    assert functions.policySigner().call() == world.signer.address
    assert functions.relayers(world.relayer.address).call()
    assert functions.relayers(world.other_relayer.address).call()
    assert not functions.relayers(world.deployer.address).call()
    assert not functions.paused().call()
    assert world.deploy_escrow().functions.dailyCap(world.token.address).call() == 0


@pytest.mark.parametrize("missing", ["owner", "policy_signer", "relayer"])
def test_an_escrow_with_a_zero_address_is_not_deployed(world, missing):
    roles = {
        "owner": world.owner.address,
        "policy_signer": world.signer.address,
        "relayer": world.relayer.address,
    } | {missing: ZERO}

    world.assert_refused(
        world.constructor(ESCROW, roles["owner"], roles["policy_signer"], [roles["relayer"]]),
        world.deployer,
        ZERO_ADDRESS,
    )


def test_an_escrow_whose_policy_signer_is_a_relayer_is_not_deployed(world):
    signer = world.signer.address

    world.assert_refused(
        world.constructor(ESCROW, world.owner.address, signer, [signer]),
        world.deployer,
        TWO_ROLES,
    )
