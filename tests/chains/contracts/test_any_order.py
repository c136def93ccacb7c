"""Whatever is sent in whatever order: the escrow does what a few lines of Python say it does."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.chains.contracts.refusals import (
    NOT_A_RELAYER,
    OVER_CAP,
    PAUSED,
    SETTLED,
    WRONG_SIGNATURE,
    ZERO_AMOUNT,
)
from tests.chains.contracts.typed_data import payment_id
from tests.chains.contracts.world import CAP, FUNDS, NONE, PAID, VOID, World

pytestmark = pytest.mark.long(25)

IDS = range(1, 4)
# A chain is slow to try things on: what fails is not made smaller.
a_few = settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SIGNERS = ("signer", "new_signer", "relayer")


@dataclass(frozen=True)
class Attempt:
    """Somebody submits a payment or its void under somebody's signature."""

    what: str  # pay or void
    number: int
    amount: int
    sender: str
    signer: str
    signed: str  # pay or void: what the signature is for


@dataclass(frozen=True)
class ListAttempt:
    """Somebody submits a list under somebody's signature."""

    payments: tuple[tuple[int, int], ...]  # number and amount of each
    sender: str
    signer: str


@dataclass
class Model:
    """What the escrow should be like."""

    is_paused: bool = False
    policy_signer: str = "signer"
    paid: int = 0
    status: dict[int, int] = field(default_factory=lambda: dict.fromkeys(IDS, NONE))

    def refusal(self, one: Attempt) -> str | None:
        """Say why the escrow must refuse, in its order; None: it must not."""
        is_pay = one.what == "pay"
        reasons = {
            NOT_A_RELAYER: one.sender not in ("relayer", "other_relayer"),
            PAUSED: is_pay and self.is_paused,
            SETTLED: self.status[one.number] != NONE,
            WRONG_SIGNATURE: (one.signer, one.signed) != (self.policy_signer, one.what),
            OVER_CAP: is_pay and self.paid + one.amount > CAP,
            ZERO_AMOUNT: is_pay and one.amount == 0,
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def refusal_of_list(self, one: ListAttempt) -> str | None:
        """Say why the escrow must refuse a list as a whole, in its order; None: it must not."""
        reasons = {
            NOT_A_RELAYER: one.sender not in ("relayer", "other_relayer"),
            PAUSED: self.is_paused,
            WRONG_SIGNATURE: one.signer != self.policy_signer,
        }
        return next((reason for reason, applies in reasons.items() if applies), None)

    def apply_list(self, one: ListAttempt) -> list[tuple[int, str]]:
        """Pay each payment that can be paid alone; return what is skipped, each with the reason."""
        skipped = []
        for number, amount in one.payments:
            alone = Attempt("pay", number, amount, one.sender, one.signer, "pay")
            reason = self.refusal(alone)
            if reason is None:
                self.apply(alone)
            else:
                skipped.append((number, reason))
        return skipped

    def apply(self, one: Attempt) -> None:
        self.status[one.number] = PAID if one.what == "pay" else VOID
        self.paid += one.amount if one.what == "pay" else 0


kinds = st.sampled_from(["pay", "void"])
amounts = st.sampled_from([0, 1, CAP // 2, CAP - 1, CAP, CAP + 1])
senders = st.sampled_from(["relayer", "other_relayer", "relayer", "stranger", "signer", "owner"])
signers = st.sampled_from(["signer", "signer", *SIGNERS])
attempts = st.builds(
    Attempt,
    what=kinds,
    number=st.sampled_from(IDS),
    amount=amounts,
    sender=senders,
    signer=signers,
    signed=kinds,
) | st.builds(  # mostly what is in order
    lambda what, number, amount: Attempt(what, number, amount, "relayer", "signer", what),
    kinds,
    st.sampled_from(IDS),
    st.sampled_from([1, CAP // 2, CAP]),
)
some_payments = st.lists(st.tuples(st.sampled_from(IDS), amounts), min_size=1, max_size=5).map(tuple)
lists = st.builds(ListAttempt, some_payments, senders, signers) | st.builds(
    ListAttempt, some_payments, st.just("relayer"), st.just("signer")
)
steps = st.lists(attempts | lists | st.sampled_from(["pause", "unpause", "rotate"]), min_size=1, max_size=8)


@a_few
@given(steps)
def test_the_escrow_does_what_the_model_says(steps):
    world, model = World(), Model()

    for step in steps:
        if isinstance(step, Attempt):
            attempt(world, model, step)
        elif isinstance(step, ListAttempt):
            attempt_list(world, model, step)
        else:
            administer(world, model, step)

    token = world.token.address
    assert {number: world.status(world.payment(id=payment_id(number))) for number in IDS} == model.status
    assert world.balance(world.recipient.address) == model.paid
    assert world.balance(world.escrow.address) == FUNDS - model.paid
    assert world.escrow.functions.paidToday(token).call() == model.paid


def attempt(world: World, model: Model, one: Attempt) -> None:
    payment = world.payment(id=payment_id(one.number), amount=one.amount)
    sign = world.sign if one.signed == "pay" else world.sign_void
    signature = sign(payment, signer=getattr(world, one.signer))
    call = (world.pay if one.what == "pay" else world.void)(payment, signature)
    refusal = model.refusal(one)
    if refusal is None:
        world.send(call, getattr(world, one.sender))
        model.apply(one)
    else:
        world.assert_refused(call, getattr(world, one.sender), refusal)


def attempt_list(world: World, model: Model, one: ListAttempt) -> None:
    payments = [world.payment(id=payment_id(number), amount=amount) for number, amount in one.payments]
    call = world.pay_many(payments, world.sign_many(payments, signer=getattr(world, one.signer)))
    refusal = model.refusal_of_list(one)
    if refusal is None:
        receipt = world.send(call, getattr(world, one.sender))
        skipped = model.apply_list(one)
        assert world.skipped(receipt) == [(payment_id(number), reason) for number, reason in skipped]
        assert len(world.paid(receipt)) == len(payments) - len(skipped)
    else:
        world.assert_refused(call, getattr(world, one.sender), refusal)


def administer(world: World, model: Model, step: str) -> None:
    functions = world.escrow.functions
    if step == "rotate":
        model.policy_signer = "new_signer" if model.policy_signer == "signer" else "signer"
        world.send(functions.setPolicySigner(getattr(world, model.policy_signer).address), world.owner)
    elif model.is_paused != (step == "pause"):
        model.is_paused = step == "pause"
        world.send(functions[step](), world.owner)


@a_few
@given(place=st.integers(0, 64), mask=st.integers(1, 255), what=st.sampled_from(["pay", "void", "payMany"]))
def test_no_changed_byte_of_a_signature_passes(world, place, mask, what):
    payment = world.payment()
    sign, make_call, subject = {
        "pay": (world.sign, world.pay, payment),
        "void": (world.sign_void, world.void, payment),
        "payMany": (world.sign_many, world.pay_many, [payment]),
    }[what]
    signature = bytearray(sign(subject))
    signature[place] ^= mask
    call = make_call(subject, bytes(signature))

    world.assert_refused(call, world.relayer, WRONG_SIGNATURE)


@a_few
@given(ids=st.lists(st.binary(min_size=32, max_size=32), min_size=2, max_size=2, unique=True))
def test_a_void_is_of_the_id_that_was_signed_whatever_its_bytes(world, ids):
    signed, other = (replace(world.payment(), id=one) for one in ids)
    assume((world.status(signed), world.status(other)) == (NONE, NONE))  # the chain is the same for all examples
    signature = world.sign_void(signed)

    world.assert_refused(world.void(other, signature), world.relayer, WRONG_SIGNATURE)
    world.send(world.void(signed, signature), world.relayer)
    assert (world.status(signed), world.status(other)) == (VOID, NONE)
