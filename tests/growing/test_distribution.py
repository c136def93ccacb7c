"""The tables could be distributed by agent, as docs/operate/growing.md says, and it tells what stands in the way."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.db.models import ForeignKey, Model, UniqueConstraint

from tests.documents.pages import text_of
from tests.growing.statements import Use, uses_in

_PAGE = "docs/operate/growing.md"
_APPS = ("policy", "services", "ledger", "payments")
# What a payment runs, its triggers included.
_MONEY_PATH = (
    "payments/deciding/sql/*.sql", "ledger/sql/windows.sql", "ledger/sql/levels.sql", "ledger/sql/tallies.sql",
    "services/sql/deliveries.sql",
)  # fmt: skip
# These name the agents of a tree by their ancestors.
_OF_TREES = {"ledger_held", "ledger_level_anew"}


def rows_of(heading: str) -> list[list[str]]:
    """Read the table below a heading of the page, cell by cell."""
    section = text_of(_PAGE).split(f"{heading}\n", 1)[1]
    table = section[section.index("\n|") :].split("\n\n", 1)[0].strip().splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[2:]]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def places() -> dict[str, tuple[str, str]]:
    """Return by table what the page makes of it, and the column that it is distributed by."""
    found = {}
    for tables, kind, column in (row[:3] for row in rows_of("### Tables")):
        for table in names_in(tables):
            assert table not in found, table
            found[table] = kind, "".join(names_in(column))
    return found


def models() -> dict[str, type[Model]]:
    return {model._meta.db_table: model for app in _APPS for model in apps.get_app_config(app).get_models()}


def columns_of(model: type[Model]) -> set[str]:
    return {field.attname for field in model._meta.local_concrete_fields}


def owners() -> dict[str, str]:
    return {table: column for table, (kind, column) in places().items() if kind == "distributed"}


def test_every_table_has_a_place():
    assert places().keys() == models().keys()
    assert {kind for kind, _ in places().values()} == {"distributed", "to be distributed", "reference", "local"}


def test_what_is_distributed_has_its_column_and_what_is_to_be_lacks_it():
    for table, (kind, column) in places().items():
        assert (kind in ("distributed", "to be distributed")) == bool(column), table
        if column:
            assert (column in columns_of(models()[table])) == (kind == "distributed"), table


def test_the_page_names_every_unique_key_that_lacks_the_column():
    in_the_way = {name for row in rows_of("### Unique keys") for name in names_in(row[0])}

    assert in_the_way == set(_keys_without_owner())


def _keys_without_owner() -> Iterator[str]:
    for table, owner in owners().items():
        model = models()[table]
        for field in model._meta.local_concrete_fields:
            if field.unique and field.attname != owner:
                yield f"{table}.{field.attname}"
        for key in model._meta.constraints:
            if isinstance(key, UniqueConstraint):
                fields = {model._meta.get_field(name).attname for name in key.fields}  # type: ignore[union-attr]
                if owner not in fields:
                    yield str(key.name)


def test_the_page_names_every_reference_that_leaves_an_agents_rows():
    """A foreign key leads within an agent's rows, or to a reference table."""
    in_the_way = {name for row in rows_of("### References") for name in names_in(row[0])}

    assert in_the_way == set(_references_across())


def _references_across() -> Iterator[str]:
    own = ("distributed", "to be distributed")
    for table, (kind, _) in places().items():
        for field in models()[table]._meta.local_concrete_fields:
            if isinstance(field, ForeignKey):
                target = places()[field.related_model._meta.db_table][0]  # type: ignore[union-attr]
                if (target in own) != (kind in own) and not (kind in own and target == "reference"):
                    yield f"{table}.{field.attname}"


def test_every_statement_of_the_money_path_names_its_agents():
    unnamed = {use.function for use in _uses() if not use.names_owner}

    assert unnamed == _OF_TREES
    assert set(names_in(text_of(_PAGE).split("- **Trees.**", 1)[1].split("\n- ", 1)[0])) >= _OF_TREES


def test_the_money_path_was_read():
    """The control: all that a payment locks, reads and writes is seen."""
    seen = {use.table for use in _uses()}

    assert seen == owners().keys()


def _uses() -> Iterator[Use]:
    for pattern in _MONEY_PATH:
        for path in sorted(Path(settings.BASE_DIR).glob(pattern)):
            yield from uses_in(path.read_text(), owners())


@pytest.mark.parametrize(
    ("statement", "names_owner"),
    [
        ("SELECT * INTO x FROM t WHERE t.owner = p", True),
        ("SELECT * FROM t e WHERE e.owner = p AND e.at > now()", True),
        ("SELECT * FROM t WHERE owner = ANY (p)", True),
        ("SELECT * FROM t e WHERE p_owner = e.owner", True),
        ("SELECT * FROM unnest(p) AS u(id) JOIN t e ON e.owner = u.id", True),
        ("SELECT * FROM other JOIN t USING (owner)", True),
        ("SELECT (SELECT sum(a) FROM t e WHERE e.owner = q.id) FROM asked q", True),
        ("UPDATE t SET a = 1 WHERE owner = p", True),
        ("INSERT INTO t VALUES (entry.*)", True),
        ("INSERT INTO t (owner, a) VALUES (p, 1)", True),
        ("INSERT INTO t SELECT * FROM json_populate_recordset(NULL::t, p)", True),
        ("SELECT * FROM t", False),
        ("SELECT owner FROM t WHERE at > now()", False),
        ("SELECT * FROM t e WHERE other.owner = p", False),
        ("SELECT * FROM t e WHERE e.owner <> p AND e.owner > q", False),
        ("SELECT * FROM t e WHERE e.a = (SELECT max(a) FROM u WHERE owner = p)", False),
        ("SELECT (SELECT sum(a) FROM t e) FROM asked q WHERE q.owner = p", False),
        ("SELECT r.a FROM r LEFT JOIN t s ON s.chain = r.chain AND s.relayer = r.id WHERE r.id = p", False),
        ("INSERT INTO t (a) VALUES (1)", False),
        ("DELETE FROM t WHERE a = 1", False),
    ],
)
def test_a_statement_that_names_no_owner_is_noticed(statement, names_owner):
    sql = f"CREATE OR REPLACE FUNCTION f(p text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN {statement}; END $$;"

    assert [(use.table, use.names_owner) for use in uses_in(sql, {"t": "owner"})] == [("t", names_owner)]
