"""`manage.py fund_relayers`: gas money for the relayers of a test network, as far as it is missing."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from django.conf import settings as configured
from django.test import override_settings

from chains.port import ChainAdapter
from payments.models import Relayer
from payments.settling.relayer_queue import read_relayer_queues, well_funded_payments
from services.served_chains import served_chains
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.local_chain import Localnet
from tests.support.localnets import EVM

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]


def fund(localnet: Localnet, *arguments: str):
    lines, error = run("fund_relayers", localnet.alias, *arguments)
    assert error is None, error
    return json.loads(lines[-1])


@pytest.fixture
def unused_relayers(settings) -> Iterator[Callable[[Localnet], ChainAdapter]]:
    """Configure the relayers of another seed: nobody has given them anything yet, and no watcher has seen them."""
    settings.RELAYER_SEED, settings.RELAYERS_PER_CHAIN = os.urandom(64), 2
    served_chains.cache_clear()
    yield lambda localnet: served_chains()[localnet.caip2]
    served_chains.cache_clear()


def test_relayers_that_have_nothing_get_gas_money_for_as_many_payments_as_asked_for(localnet, unused_relayers):
    adapter = unused_relayers(localnet)

    first = fund(localnet, "--payments", "7", "--reason", "Faucet")

    addresses = [one["address"] for one in first["relayers"]]
    assert addresses == [adapter.preparer.relayer_address(number) for number in range(len(addresses))]
    assert len(addresses) == (adapter.preparer.most_relayers or 2)
    states = adapter.observer.observe_relayers(addresses)
    assert {state.affords for state in states.values()} == {7}
    assert {Decimal(one["amount"]) for one in first["relayers"]} == {state.balance for state in states.values()}
    assert fund(localnet, "--payments", "7")["relayers"] == []

    recorded = AuditEntry.objects.filter(action="relayer.funded").order_by("id")
    assert list(recorded.values_list("reason", "subject", "after__tx")) == [
        ("Faucet", f"{localnet.caip2}:{one['address']}", one["tx"]) for one in first["relayers"]
    ]


def test_by_default_they_get_so_much_that_the_doctor_has_nothing_to_say(localnet, unused_relayers):
    unused_relayers(localnet)

    fund(localnet)

    queues = read_relayer_queues(localnet.caip2, localnet.adapter)
    mine = [one for one in queues if one.relayer.seen_at is None]
    assert {one.payments_now >= 2 * well_funded_payments() for one in mine} == {True}
    assert {one.remark for one in mine} == {"waits for the watcher"}


def test_a_disabled_relayer_gets_nothing(unused_relayers):
    address = unused_relayers(EVM).preparer.relayer_address(0)
    Relayer.objects.create(chain=EVM.caip2, number=0, address=address, is_enabled=False)

    assert address not in {one["address"] for one in fund(EVM)["relayers"]}


def test_another_account_than_that_of_the_environment_pays_if_its_key_is_given(unused_relayers):
    unused_relayers(EVM)
    _, error = run("fund_relayers", EVM.alias, "--from-key", "77" * 32)

    assert "0x" in str(error)
    assert "has 0.00 of the chain's coin, and may need" in str(error)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--from-key", "77" * 31], "is not a key of 32 bytes in hex"),
        (["--from-key", "0x" + "00" * 32], "is not a key of 32 bytes in hex"),
        (["--payments", "0"], "--payments is 1 or more"),
    ],
)
def test_what_is_no_key_or_no_number_is_refused_without_repeating_it(arguments, sentence):
    _, error = run("fund_relayers", EVM.alias, *arguments)

    assert sentence in error
    assert "77" * 31 not in error


def test_relayers_of_real_money_are_not_funded():
    served = configured.CHAINS[EVM.caip2]
    real = replace(served, chain=replace(served.chain, is_test=False))
    with override_settings(CHAINS={EVM.caip2: real}):
        assert "is not a test network" in str(run("fund_relayers", EVM.alias)[1])


def test_without_a_key_it_says_which_variable_is_missing(monkeypatch):
    monkeypatch.delenv("DEPOSIT_KEY")
    assert "DEPOSIT_KEY is not set" in str(run("fund_relayers", EVM.alias)[1])


def test_what_is_no_key_is_not_repeated(monkeypatch):
    monkeypatch.setenv("DEPOSIT_KEY", "77" * 31)
    error = str(run("fund_relayers", EVM.alias)[1])
    assert "DEPOSIT_KEY" in error
    assert "77" * 31 not in error
