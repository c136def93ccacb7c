"""Payments whose transactions expired on a chain without nonces."""

from payments.models import Payment
from tests.support.scenes import Scene


def has_expired(scene: Scene) -> Payment:
    """Have a payment sent, and let its time pass; nobody has noticed."""
    payment = scene.pay_and_send()
    scene.pass_deadline(payment)
    return payment
