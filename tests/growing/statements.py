"""Read which tables a function in SQL touches, and whether each time it names the owner of the rows. Pure.

No parser of SQL: a reading of the form that our files have. What it does not understand is reported, not passed over.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION (\w+).*?\$\$(.*?)\$\$", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")
_DECLARATIONS = re.compile(r"\bDECLARE\b.*?\bBEGIN\b", re.DOTALL)
_QUERY = re.compile(r"\(\s*(?:SELECT|WITH)\b")
# What may follow a table that has no other name in a query.
_WORDS_OF_SQL = frozenset(
    {"where", "on", "using", "set", "values", "select", "order", "group", "limit", "for", "left", "join", "cross"}
)


@dataclass(frozen=True, slots=True)
class Use:
    """One place in a function where a table is read or written. `names_owner`: of which its rows are."""

    function: str
    table: str
    names_owner: bool


def uses_in(sql: str, owners: Mapping[str, str]) -> Iterator[Use]:
    """Find each use of some tables in the functions of a file; `owners` has the column of each that names the owner."""
    known = re.compile(rf"(?<!::)\b({'|'.join(owners)})\b(?![%.])(?:\s+(?:AS\s+)?(\w+))?")
    for function, body in _FUNCTION.findall(_COMMENT.sub("", sql)):
        statements = _DECLARATIONS.sub("BEGIN", body)
        for statement in statements.split(";"):
            for found in known.finditer(statement):
                table, alias = found[1], found[2] or ""
                scope = _scope_of(statement, found.start())
                named = table if alias.lower() in _WORDS_OF_SQL else alias
                is_insert = re.search(r"\bINSERT\s+INTO\s+$", statement[: found.start()]) is not None
                names_owner = _inserts_owner(scope, table, owners[table]) if is_insert else False
                yield Use(function, table, names_owner or (not is_insert and _asks_for(scope, named, owners[table])))


def _asks_for(scope: str, alias: str, owner: str) -> bool:
    """Tell whether a query takes only rows of owners that it names: by a value, a list, or a row that it has."""
    column = rf"(?:\b{alias}\.|(?<![\w.])){owner}\b" if alias else rf"(?<![\w.]){owner}\b"
    by_value = rf"{column}\s*(?:=|\bIN\b)|[^<>!:]=\s*{column}(?!\s*\()"
    return re.search(rf"{by_value}|\bUSING\s*\([^)]*\b{owner}\b", scope) is not None


def _inserts_owner(scope: str, table: str, owner: str) -> bool:
    """Tell whether an INSERT names the owner: among its columns, or with whole rows of the table."""
    columns = re.search(rf"\b{table}\s*\(([^)]*)\)", scope)
    return columns is None or re.search(rf"\b{owner}\b", columns[1]) is not None


def _scope_of(statement: str, place: int) -> str:
    """Return the query around a place: what is in the same parentheses, without the queries inside of it."""
    begin = _edge(statement, place, -1)
    within = statement[begin + 1 : _edge(statement, place, 1)]
    while inner := _QUERY.search(within):
        within = f"{within[: inner.start()]} a query {within[_edge(within, inner.start() + 1, 1) + 1 :]}"
    return within


def _edge(text: str, place: int, step: int) -> int:
    """Find the parenthesis that encloses a place, before or behind it; or the end of the text."""
    depth = 0
    while 0 <= place < len(text):
        depth += {"(": step, ")": -step}.get(text[place], 0)
        if depth < 0:
            break
        place += step
    return place
