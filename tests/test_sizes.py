"""Files and functions stay short enough to be read at once. What may be longer says why."""

import ast
from collections.abc import Iterator

import pytest

from tests.test_project import PACKAGES, ROOT, TESTS, python_files

# Lines of a file, and of a function without its docstring.
LIMITS = {"the product": (200, 25), "tests": (300, 50)}
FOLDERS = {"the product": [*PACKAGES, "clients/python"], "tests": TESTS}
LONGER = {
    "workshop/embedded/keys.py::_choose": "the secrets of an installation",
    "allowance/settings.py": "Django's settings are one module",
    "clients/python/allowance_client/payment_models.py::read": "the members of a payment",
    "clients/python/allowance_client/operations.py": "the list of all operations",
    "clients/python/allowance_mcp/tools.py": "the list of all tools",
    "chains/catalogue.py": "the list of all chains and their tokens",
    "foundation/environment/table.py": "the list of all settings",
    "workshop/localnet/evm/encoding.py::block_rows": "one row for each of the tables of a node",
    "workshop/localnet/evm/encoding.py::block_json": "a block as JSON-RPC writes it, member by member",
    "workshop/localnet/evm/encoding.py::transaction_json": "a transaction as JSON-RPC writes it, member by member",
    "policy/facts.py::make_facts": "the members of the facts",
    "payments/deciding/entries.py::_make_entry": "the members of a log entry",
    "policy/more_limits.py": "the list of all optional limits",
    "policy/openapi.py": "what the OpenAPI document says of policies and keys",
    "ledger/openapi.py": "what the OpenAPI document says of budgets and the log",
    "clients/python/allowance_client/limits.py::read_limits": "the list of all optional limits",
    "payments/api/openapi.py::_evaluate_payment": "one operation of the OpenAPI document",
    "payments/api/openapi.py": "the operations of the OpenAPI document that are about payments",
    "payments/api/openapi.py::_request_payment": "one operation of the OpenAPI document",
    "payments/api/openapi.py::_pay_demand": "one operation of the OpenAPI document",
    "services/openapi.py::_register_service": "one operation of the OpenAPI document",
    "payments/deciding/signed_settlements.py::settlement_row": "the columns of a settlement in their order",
}
# No reason is good enough: these are to be split, and then leave this list.
TO_BE_SPLIT = {
    "workshop/demo/story.py::play",
    "payments/reconciling/reconciliation.py",
    "payments/reconciling/reconciliation.py::_compare_assets",
    "workshop/demo/run.py::_run",
    "owner/solana/depositing.py::_spend",
    "ledger/clocks.py::repair_clock",
    "workshop/localnet/daemon.py::start",
    "workshop/localnet/evm/execution.py::_run",
    "workshop/localnet/node_process.py::ensure",
    "payments/management/commands/chains.py::_show",
    "payments/management/commands/verify_log.py::perform",
    "owner/evm_escrow.py::deploy",
    "payments/settling/transitions.py::fail",
}


@pytest.mark.parametrize("part", LIMITS)
def test_what_is_longer_than_the_style_allows_is_named_with_a_reason(part):
    assert too_long(part) - LONGER.keys() - TO_BE_SPLIT == set()


def test_nothing_is_excepted_that_is_short_enough_by_now():
    assert (LONGER.keys() | TO_BE_SPLIT) - set().union(*map(too_long, LIMITS)) == set()
    assert LONGER.keys() & TO_BE_SPLIT == set()


def too_long(part: str) -> set[str]:
    """Name the files of a part that are too long, and the functions: `folder/file.py::function`."""
    most_of_file, most_of_function = LIMITS[part]
    found = set()
    for path in python_files(*FOLDERS[part]):
        text, name = path.read_text(), path.relative_to(ROOT).as_posix()
        if "migrations" in path.parts:
            continue  # written by makemigrations
        if len(text.splitlines()) > most_of_file:
            found.add(name)
        found |= {f"{name}::{function}" for function, lines in functions(text) if lines > most_of_function}
    return found


def functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, lines_of(node) - (lines_of(node.body[0]) if ast.get_docstring(node) is not None else 0)


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
