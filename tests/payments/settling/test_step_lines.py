"""Each step of a payment has its line in the log, by which it is followed, once the step is committed."""

import json
import logging

import pytest

from foundation.telemetry.log_lines import JsonLine, PlainLine
from payments.models import Payment
from payments.settling.relayers import refresh_relayers
from tests.support.outflows import search, take_out
from tests.support.scenes import Scene, transaction_of, transactions_of


@pytest.fixture
def lines(caplog, django_capture_on_commit_callbacks):
    """Return a function that does something and commits it; gives the lines of payments, as programs read them."""

    def of(act):
        caplog.clear()
        with caplog.at_level(logging.INFO), django_capture_on_commit_callbacks(execute=True):
            act()
        found = [json.loads(JsonLine("worker").format(one)) for one in caplog.records]
        return [one for one in found if "paymentId" in one]

    return of


def told(line):
    return tuple(line.get(name) for name in ("paymentId", "agentId", "escrowId", "chain", "tx", "state"))


def test_a_payment_that_goes_well_is_followed_on_a_real_chain_by_its_id(real, localnet, caplog):
    with caplog.at_level(logging.INFO):
        payment = real()
        localnet.include(payment)
        localnet.drain()

    payment = Payment.objects.get(pk=payment.pk)
    tx = transaction_of(payment).tx
    ids = (payment.pk, payment.agent_id, payment.escrow_id, localnet.caip2, tx)
    records = [one for one in caplog.records if payment.pk in PlainLine().format(one)]
    found = [json.loads(JsonLine("worker").format(one)) for one in records]
    assert [told(one) for one in found] == [(*ids, state) for state in ("broadcast", "included", "final", "settled")]
    assert {one["level"] for one in found} == {"INFO"}


def test_in_a_line_for_people_the_payment_and_its_transaction_are_found_too(scene, caplog, lines):
    payment = scene.pay()
    lines(scene.broadcast)

    (line,) = [text for one in caplog.records if payment.pk in (text := PlainLine().format(one))]
    assert transaction_of(payment).tx in line


def test_each_transaction_of_a_payment_has_lines_of_its_own(db, lines):
    scene = Scene()
    payment = scene.pay_and_send()
    replaced = lines(scene.bump)

    first, second = transactions_of(payment)
    assert [(one["tx"], one["state"]) for one in replaced if "escrowId" in one] == [
        (first.tx, "replaced"),
        (second.tx, "broadcast"),
    ]


def test_what_could_not_be_committed_has_no_line(scene, caplog):
    payment = scene.pay_and_send()
    caplog.clear()
    with caplog.at_level(logging.INFO):  # the test's own transaction is never committed
        scene.chain.include(transaction_of(payment))
        scene.confirm()

    assert [one for one in caplog.records if one.name == "payments.settling.step_lines"] == []


def test_a_payment_that_is_given_back_says_so(scene, lines):
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted")

    found = lines(lambda: (scene.confirm(), scene.give_back(payment)))

    (end,) = [one for one in found if one["state"] == "failed" and "tx" not in one]
    assert (end["paymentId"], end["agentId"], end["level"]) == (payment.pk, scene.agent.id, "WARNING")


def test_one_that_somebody_else_submitted_is_followed_to_its_end(scene, lines):
    payment = scene.pay()
    found = take_out(scene, payment)

    said = lines(lambda: search(scene))

    assert [told(one)[4:] for one in said if "escrowId" in one][-1] == (found.tx, "settled")


def test_what_only_uses_a_nonce_up_belongs_to_no_payment(db, lines):
    scene = Scene()
    scene.skip_nonce()
    refresh_relayers(scene.chain.name, scene.chain, {})
    assert scene.fillers()

    assert lines(scene.broadcast) == []
