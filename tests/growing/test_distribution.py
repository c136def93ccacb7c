"""Each table has a place in a distributed database; references lead within a group, or to what is on every node."""

import re
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db.models import ForeignKey, Model

from operators.distributing.places import ENTRIES, OF_GROUPS, ON_EVERY_NODE

# These lead elsewhere, and are kept by code instead: `reconcile` and `verify_log` check what they say.
_ACROSS = {
    # A key is looked up before its agent is known.
    "policy_apikey.agent_id",
    # Deposits, withdrawals and outflows belong to a chain; some have no agent at first.
    "payments_outflow.movement_id", "payments_deposit.agent_id", "payments_deposit.movement_id",
    "payments_withdrawal.agent_id", "payments_withdrawal.movement_id",
    # A secret is that of an endpoint in all groups.
    "services_webhooksecret.endpoint_id",
}  # fmt: skip


def models() -> dict[str, type[Model]]:
    names = ("policy", "services", "ledger", "payments")
    return {model._meta.db_table: model for name in names for model in apps.get_app_config(name).get_models()}


def test_each_place_names_tables_that_there_are_each_once():
    named = [*OF_GROUPS, *ON_EVERY_NODE]

    assert len(set(named)) == len(named)
    assert set(named) <= models().keys()


def test_what_has_an_agent_is_of_its_group_but_for_what_belongs_to_a_chain_or_to_all():
    has_agent = {table for table, model in models().items() if "agent_id" in columns_of(model)}

    assert has_agent - set(OF_GROUPS) == {"policy_apikey", "payments_deposit", "payments_withdrawal"}


def columns_of(model: type[Model]) -> set[str]:
    return {field.attname for field in model._meta.local_concrete_fields}


def test_references_lead_within_a_group_or_to_what_is_on_every_node():
    across = {
        f"{table}.{field.attname}"
        for table, model in models().items()
        for field in model._meta.local_concrete_fields
        if isinstance(field, ForeignKey) and not is_kept(table, field.related_model._meta.db_table)  # type: ignore[union-attr]
    }

    assert across == _ACROSS


def is_kept(table: str, target: str) -> bool:
    return target in ON_EVERY_NODE or (table in OF_GROUPS) == (target in OF_GROUPS)


def test_the_functions_of_the_money_path_are_those_that_its_code_calls():
    code = "".join(path.read_text() for path in (Path(settings.BASE_DIR) / "payments/deciding").glob("*.py"))

    called = set(re.findall(r"\bpayments_\w+(?=\()", code))

    assert called - {"payments_gas_since"} == set(ENTRIES)
