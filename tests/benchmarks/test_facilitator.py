"""The side of the settlement benchmark that x402's facilitator has."""

import os

import pytest

from tests.benchmarks.facilitator import packages
from tests.benchmarks.facilitator.processes import UNITS, Facilitators
from tests.chains.adapter.anvil_node import EACH_SECOND, FOLDER, has_program, running_anvil
from tests.support.javascript import install_or_skip, needs_node


@pytest.fixture
def anvil():
    install_or_skip(FOLDER)
    with running_anvil(EACH_SECOND) as url:
        yield url


@pytest.fixture
def x402():
    """Have its packages; skip the test where pip cannot install them, but not in CI."""
    try:
        packages.install()
    except packages.PackagesUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@needs_node
@has_program
def test_the_facilitator_settles_payments_and_the_payee_has_the_money(anvil, x402):
    with Facilitators(anvil, connections=5) as side:
        payments = side.sign(5)
        side.settle(payments)

        assert side.balance_of(payments.payee) == 5 * UNITS


@needs_node
@has_program
def test_a_payment_that_is_settled_twice_is_an_error(anvil, x402):
    with Facilitators(anvil, processes=1, connections=1) as side:
        signed = side.sign(1)
        side.settle(signed)

        with pytest.raises(RuntimeError, match="transaction_failed"):
            side.settle(signed)


def test_what_pip_says_is_told_where_it_cannot_install(tmp_path, monkeypatch):
    lock = tmp_path / "requirements.txt"
    lock.write_text("x402==0.0.0 --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(packages, "LOCK", lock)
    monkeypatch.setattr(packages, "_CACHE", tmp_path)
    monkeypatch.setattr(packages, "_OPTIONS", (*packages._OPTIONS, "--no-index", "--find-links", tmp_path))

    with pytest.raises(packages.PackagesUnavailable, match="No matching distribution found for x402"):
        packages.install()
