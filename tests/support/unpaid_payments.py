"""Payments that no open transaction pays, and chains on which nothing may be signed."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from payments.lifecycle import PaymentStatus
from payments.models import ChainState, Payment, Relayer, Settlement
from payments.settling.chain_switch import start_signing_on, stop_signing_on
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from policy.operations import switch_signer
from tests.support.scenes import Scene, at_once, is_waited_for, status_of, transaction_of


def tend(scene: Scene) -> int:
    return resolve_unpaid(scene.chain.name, scene.chain)


def has_reverted(scene: Scene, **pay: Any) -> Payment:
    """Have a payment revert in a final block; that its transaction failed was noticed, no more."""
    payment = scene.pay_and_send(**pay)
    scene.chain.include(transaction_of(payment), failure="Reverted: EnforcedPause")
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def has_lost_its_nonce(scene: Scene, **pay: Any) -> Payment:
    payment = scene.pay_and_send(**pay)
    scene.use_elsewhere(transaction_of(payment))
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def has_expired(scene: Scene, **pay: Any) -> Payment:
    """Have a payment expire; that its transaction did was noticed, no more."""
    payment = scene.pay_and_send(**pay)
    scene.pass_deadline(payment)
    assert confirm(scene.chain.name, scene.chain) == 1
    return payment


def voids_of(payment: Payment) -> list[Settlement]:
    return list(Settlement.objects.filter(payments=payment, is_void=True).order_by("created_at"))


def is_given_back(scene: Scene, payment: Payment) -> bool:
    """Tell whether a payment failed, and that its money came back with it, once, or not at all."""
    has_failed = status_of(payment) == PaymentStatus.FAILED
    assert scene.returns().filter(payment_id=payment.pk).count() == has_failed
    return has_failed


def out_of_service(scene: Scene) -> None:
    switch_signer(is_signing=False, by="test")


def stopped(scene: Scene) -> None:
    stop_signing_on(scene.chain.name, reason="Money is missing.", by="ann")


@contextmanager
def stopped_while_it_prepares(
    scene: Scene, stop: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have somebody stop signing while the first transaction in the block is prepared: the stop has to wait for it."""
    prepare: Callable[..., Any] = scene.chain.prepare
    with ThreadPoolExecutor(1) as pool:
        stops: list[Future[Any]] = []

        def stop_meanwhile(*arguments: Any, **options: Any) -> Any:
            stops.append(pool.submit(at_once, [lambda: stop(scene)]))
            while not is_waited_for():
                assert not stops[0].done()
            monkeypatch.setattr(scene.chain, "prepare", prepare)
            return prepare(*arguments, **options)

        monkeypatch.setattr(scene.chain, "prepare", stop_meanwhile)
        yield
        stops[0].result()


def mismatching(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(mismatch="It is another chain.")


def stale(scene: Scene) -> None:
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now() - timedelta(days=2))


def unprepared(scene: Scene) -> None:
    scene.chain.is_unprepared = True


def without_relayer(scene: Scene) -> None:
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=False)


def without_gas_money(scene: Scene) -> None:
    Relayer.objects.filter(chain=scene.chain.name).update(is_funded=False)


def back_to_normal(scene: Scene) -> None:
    switch_signer(is_signing=True, by="test")
    start_signing_on(scene.chain.name, by="ann")
    ChainState.objects.filter(chain=scene.chain.name).update(observed_at=utc_now(), mismatch="")
    Relayer.objects.filter(chain=scene.chain.name).update(is_enabled=True, is_funded=True)
    scene.chain.is_unprepared = False


def void_exists(payment: Payment) -> bool:
    return Settlement.objects.filter(payments=payment, is_void=True).exists()
