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

    def apply(self, one: Attempt) -> None:
        self.status[one.number] = PAID if one.what == "pay" else VOID
        self.paid += one.amount if one.what == "pay" else 0


kinds = st.sampled_from(["pay", "void"])
attempts = st.builds(
    Attempt,
    what=kinds,
    number=st.sampled_from(IDS),
    amount=st.sampled_from([0, 1, CAP // 2, CAP - 1, CAP, CAP + 1]),
    sender=st.sampled_from(["relayer", "other_relayer", "relayer", "stranger", "signer", "owner"]),
    signer=st.sampled_from(["signer", "signer", *SIGNERS]),
    signed=kinds,
) | st.builds(  # mostly what is in order
    lambda what, number, amount: Attempt(what, number, amount, "relayer", "signer", what),
    kinds,
    st.sampled_from(IDS),
    st.sampled_from([1, CAP // 2, CAP]),
)
steps = st.lists(attempts | st.sampled_from(["pause", "unpause", "rotate"]), min_size=1, max_size=8)


@a_few
@given(steps)
def test_the_escrow_does_what_the_model_says(steps):
    world, model = World(), Model()

    for step in steps:
        if isinstance(step, Attempt):
            attempt(world, model, step)
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


def administer(world: World, model: Model, step: str) -> None:
    functions = world.escrow.functions
    if step == "rotate":
        model.policy_signer = "new_signer" if model.policy_signer == "signer" else "signer"
        world.send(functions.setPolicySigner(getattr(world, model.policy_signer).address), world.owner)
    elif model.is_paused != (step == "pause"):
        model.is_paused = step == "pause"
        world.send(functions[step](), world.owner)


@a_few
@given(place=st.integers(0, 64), mask=st.integers(1, 255), what=kinds)
def test_no_changed_byte_of_a_signature_passes(world, place, mask, what):
    payment = world.payment()
    signature = bytearray((world.sign if what == "pay" else world.sign_void)(payment))
    signature[place] ^= mask
    call = (world.pay if what == "pay" else world.void)(payment, bytes(signature))

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
