"""Whose an outflow was: proven by keys and signed entries, told by others, and never against what is proven."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from foundation.kernel.errors import OperationRefused
from payments.management.outflow_files import read_statements
from payments.models import Outflow, Settlement
from payments.reconciling.outflow_owners import UNKNOWN, Owner, Owners, Statement
from policy.models import Agent
from services.models import Service
from tests.support.factories import make_agent, make_service
from tests.support.forgotten import Forgotten, forget
from tests.support.reconciliations import EscrowScene
from tests.support.scenes import transaction_of

pytestmark = pytest.mark.django_db
SOLANA_PAYEE = "solana-localnet:4Nd1mYvJgRzM2cZ2gP7zqDqg8jxTz1rH4mQb3Xy7aKcD"


@pytest.fixture
def lost(agent: Agent, service: Service) -> Forgotten:
    return forget(agent, service)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Return a function that writes a file of lines, each a text or what JSON writes of a value."""

    def to(name: str, *lines: Any) -> Path:
        file = tmp_path / name
        file.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
        return file

    return to


def owner_by(lost: Forgotten, *files: Path) -> Owner | str:
    owners = Owners([lost.outflow])
    for file in files:
        for statement in read_statements(str(file)):
            owners.hear(statement)
    return owners.find(lost.outflow)


# --- Proofs -----------------------------------------------------------------------------------------------------------
def test_an_idempotency_key_proves_whose_payment_it_was_and_no_other_agent_can_claim_it(lost, write):
    other = make_agent()
    own = write("own.jsonl", {"agentId": lost.agent_id, "idempotencyKey": lost.key})
    false = write("false.jsonl", {"agentId": other.id, "idempotencyKey": lost.key})
    guessed = write("guessed.jsonl", {"agentId": other.id, "idempotencyKey": "another key"})

    assert owner_by(lost, own) == Owner(lost.agent_id, "own.jsonl, line 1", is_proven=True)
    assert [owner_by(lost, one) for one in (false, guessed)] == [UNKNOWN, UNKNOWN]


def test_a_key_alone_is_tried_with_every_agent(lost, write):
    keys = write("keys.csv", "idempotencyKey", "another", lost.key)

    assert owner_by(lost, keys) == Owner(lost.agent_id, "keys.csv, line 3", is_proven=True)


def test_a_line_that_names_the_transaction_and_a_key_that_did_not_pay_it_is_refused_by_its_number(lost, write):
    other = make_agent()
    line = {"agentId": other.id, "idempotencyKey": "another", "tx": lost.outflow.tx}

    with pytest.raises(OperationRefused, match=r"claims\.jsonl, line 2, is not true: it is not by this key that 0x"):
        owner_by(lost, write("claims.jsonl", {}, line))


def test_an_exported_log_entry_proves_it(lost, write):
    assert owner_by(lost, write("log.jsonl", lost.entry)) == Owner(lost.agent_id, "log.jsonl, line 1", is_proven=True)
    page = write("page.json", {"data": [lost.entry], "nextCursor": None})
    assert owner_by(lost, page) == Owner(lost.agent_id, "page.json, line 1", is_proven=True)


@pytest.mark.parametrize("member", ["agentId", "tx", "amount", "signature", "hash"])
def test_an_entry_that_was_changed_stops_all_and_is_named(lost, write, member):
    other = make_agent().id
    changed = {**lost.entry, member: {"agentId": other, "amount": "2.00"}.get(member, "A" * 64)}

    with pytest.raises(CommandError, match=r"log\.jsonl, line 1: This log entry is not what was signed"):
        owner_by(lost, write("log.jsonl", changed))


@pytest.mark.parametrize("missing", ["signature", "hash"])
def test_an_entry_without_its_seal_is_no_entry(lost, write, missing):
    forged = {name: value for name, value in lost.entry.items() if name != missing}

    with pytest.raises(CommandError, match=f"The member {missing} is missing"):
        owner_by(lost, write("log.jsonl", {**forged, "agentId": make_agent().id}))


def test_an_entry_of_another_amount_than_what_left_names_nobody(agent, service, write):
    lost = forget(agent, service, amount="1.00")
    Outflow.objects.filter(pk=lost.outflow.pk).update(amount=9)
    lost.outflow.refresh_from_db()

    assert owner_by(lost, write("log.jsonl", lost.entry)) == "log.jsonl, line 1 is of another amount or recipient."


def test_on_solana_a_payments_id_stands_in_the_memo(agent, write):
    lost = forget(agent, make_service(recipient=SOLANA_PAYEE), tx="another than the first")
    assert lost.escrow_id == lost.payment_id

    assert owner_by(lost, write("log.jsonl", lost.entry)) == Owner(lost.agent_id, "log.jsonl, line 1", is_proven=True)
    told = write("told.jsonl", {"agentId": lost.agent_id, "paymentId": lost.payment_id})
    assert owner_by(lost, told) == Owner(lost.agent_id, "told.jsonl, line 1", is_proven=False)


def test_a_payment_that_was_given_back_and_paid_after_all_is_known_to_the_ledger_itself():
    scene = EscrowScene()
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), failure="Reverted")
    scene.confirm()
    scene.give_back(payment)
    same = {"escrow_id": payment.escrow_id, "recipient": payment.recipient}
    paid, other = scene.lose("1.00", **same), scene.lose("2.00", **same)

    owners = Owners([paid, other])

    assert owners.find(paid) == Owner(scene.agent.id, f"{payment}, which was given back", is_proven=True)
    assert owners.find(other) == UNKNOWN


# --- What others say --------------------------------------------------------------------------------------------------
def test_a_line_of_a_log_tells_it_and_proves_nothing(lost, write):
    behind_a_prefix = f"worker-1  | {lost.line}"
    noise = ("no json at all", "{broken", '{"level": "INFO", "agentId": "somebody"}', "[1]", '{"tx": 7}')

    found = owner_by(lost, write("worker.jsonl", *noise, behind_a_prefix))

    assert found == Owner(lost.agent_id, "worker.jsonl, line 6", is_proven=False)


def test_a_webhook_tells_it(lost, write):
    event = {"type": "payment.settled", "data": {"agentId": lost.agent_id, "tx": lost.outflow.tx, "amount": "1.00"}}

    assert owner_by(lost, write("told.jsonl", event)) == Owner(lost.agent_id, "told.jsonl, line 1", is_proven=False)


@pytest.mark.parametrize("index", ["", "0"])
def test_a_list_tells_it(lost, write, index):
    rows = write("list.csv", "tx,index,agent", "0xother,,nobody", f"{lost.outflow.tx.upper()},{index},{lost.agent_id}")

    assert owner_by(lost, rows) == Owner(lost.agent_id, "list.csv, line 3", is_proven=False)


def test_a_list_with_what_is_no_index_is_refused_by_its_line(lost, write):
    with pytest.raises(CommandError, match=r"list\.csv, line 2: index is not a number"):
        owner_by(lost, write("list.csv", "tx,index,agent", f"{lost.outflow.tx},first,{lost.agent_id}"))


def test_a_file_that_cannot_be_read_is_named(lost, tmp_path):
    with pytest.raises(CommandError, match=r"--from .*gone"):
        owner_by(lost, tmp_path / "gone")


def test_statements_that_contradict_each_other_or_a_proof_name_nobody(lost, write):
    other = make_agent().id
    told = write("told.csv", "tx,agent", f"{lost.outflow.tx},{lost.agent_id}")
    false = write("false.csv", "tx,agent", f"{lost.outflow.tx},{other}")
    proof = write("log.jsonl", lost.entry)

    for files in ((told, false), (false, proof), (proof, false)):
        found = owner_by(lost, *files)
        assert isinstance(found, str)
        assert {lost.agent_id, other} <= set(found.replace("'s", "").split())
        assert found.endswith("one of the two is wrong.")


# --- One transaction that did several things --------------------------------------------------------------------------
def in_one_transaction(count: int, amount: str = "1.00", *, service: Service) -> list[Forgotten]:
    first = forget(make_agent(), service, amount)
    others = [forget(make_agent(), service, amount, tx=first.outflow.tx, log_index=at) for at in range(1, count)]
    return [first, *others]


def found_by(lost: list[Forgotten], said: list[Statement]) -> list[Any]:
    owners = Owners([one.outflow for one in lost])
    for one in said:
        owners.hear(one)
    return [getattr(found, "agent_id", found) for found in (owners.find(one.outflow) for one in lost)]


def test_of_a_transaction_with_several_outflows_its_id_alone_names_none_of_them(service):
    lost = in_one_transaction(2, service=service)
    tx = lost[0].outflow.tx

    unclear = "x fits 2 outflows: which of them does not follow."
    assert found_by(lost, [Statement("x", lost[0].agent_id, tx=tx)]) == [unclear, unclear]
    assert found_by(lost, [Statement("x", lost[1].agent_id, tx=tx, index=1)]) == [UNKNOWN, lost[1].agent_id]


@pytest.mark.parametrize("by", ["escrow_id", "key"])
def test_the_id_in_the_escrow_and_the_key_name_the_right_one_whatever_else_is_said_of_the_transaction(service, by):
    lost = in_one_transaction(3, service=service)
    tx = lost[0].outflow.tx
    said = [Statement("x", one.agent_id, tx=tx, **{by: getattr(one, by)}) for one in lost]
    loose = [Statement("y", one.agent_id, tx=tx) for one in lost]

    assert found_by(lost, [*loose, *said]) == [one.agent_id for one in lost]


def test_a_transaction_that_also_paid_what_the_ledger_knows_is_not_claimed_by_its_id():
    scene = EscrowScene()
    known = scene.settle()
    tx = Settlement.objects.get(payments=known).tx
    outflow = scene.lose("1.00", tx=tx, log_index=1)
    owners = Owners([outflow])

    assert not owners.hear(Statement("x", scene.agent.id, tx=tx))
    assert owners.find(outflow) == UNKNOWN
    assert owners.hear(Statement("x", scene.agent.id, tx=tx, index=1))


def test_what_is_said_of_another_payment_of_the_same_transaction_claims_nothing(lost):
    owners = Owners([lost.outflow])

    assert not owners.hear(Statement("x", "somebody", tx=lost.outflow.tx, escrow_id="0x" + "1" * 64))
    assert owners.find(lost.outflow) == UNKNOWN
