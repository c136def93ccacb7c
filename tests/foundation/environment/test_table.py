"""The table of settings: each row can be read and is read; nothing in a value is resolved, and no value is told."""

import re
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from foundation.environment.configuration import Configuration
from foundation.environment.process_types import EVERY_TYPE, ProcessType
from foundation.environment.table import SETTINGS, find_setting, is_reader, is_secret
from foundation.environment.variables import find_unknown
from operators.setup.checks import find_problems
from tests.support.configurations import GOOD, read_settings

_ROOT = Path(settings.BASE_DIR)
_TABLE = _ROOT / "foundation/environment/table.py"
SECRET = "secret-value"
# Fragments that libraries repeat in their errors: brackets and ports of addresses, characters that no host may have.
HOSTILE = [
    SECRET, f"${SECRET}", f"$$ {SECRET}", f"https://{SECRET}@[", f"https://{SECRET}\u2100@host.example/1", f"https://{SECRET}:x/",
    f"postgres://u:{SECRET}@h:99999999/n", f"redis://:{SECRET}@h:port", f"smtp://u:{SECRET}@h:port", f"http://[{SECRET}]:1",
    f"{SECRET}=1", f"USDC={SECRET}", f"finance={SECRET}", f"{SECRET},{SECRET}", "9" * 5000 + SECRET, f"0x{SECRET}",
]  # fmt: skip


def read(name: str, value: str) -> tuple[object, list[str]]:
    configuration = Configuration(variables={name: value})
    return configuration.read(name), configuration.problems


@pytest.mark.parametrize("value", HOSTILE)
def test_no_problem_of_any_variable_tells_its_value(value):
    names = [one.name.replace("<ALIAS>", "BASE") for one in SETTINGS if one.name != "EMBEDDED"]
    problems = read_settings(dict.fromkeys(names, value))["CONFIGURATION_PROBLEMS"]
    for name in names:
        problems += find_problems({**GOOD, name: value})

    assert len({problem.split()[0] for problem in problems}) > len(names) / 3
    assert [problem for problem in problems if SECRET in problem] == []


@pytest.mark.parametrize("value", ["$SECRET_KEY", "$$", r"\$SECRET_KEY", r"a\$b\\$c$", "$", "\\"])
def test_nothing_in_a_value_is_resolved(value):
    configuration = Configuration(variables={"SECRET_KEY": value, "OIDC_CLIENT_ID": value, "DEFAULT_FROM_EMAIL": "x"})
    assert [str(configuration.read(name)) for name in ("SECRET_KEY", "OIDC_CLIENT_ID")] == [value, value]
    assert configuration.problems == []


def test_a_variable_that_names_another_one_is_no_address_of_it():
    found = read_settings({**GOOD, "OTHER": GOOD["DATABASE_URL"], "DATABASE_URL": "$OTHER", "SECRET_KEY": "$OTHER"})
    (problem,) = found["CONFIGURATION_PROBLEMS"]
    assert problem.startswith("DATABASE_URL is not a PostgreSQL URL")
    assert str(found["SECRET_KEY"]) == "$OTHER"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_default_an_example_and_a_key_that_setup_makes_are_read_as_what_an_operator_writes(setting):
    for text in filter(None, [setting.default, setting.example, setting.make and setting.make()]):
        _, problems = read(setting.name.replace("<ALIAS>", "BASE"), text)
        assert problems == []


def test_a_setting_that_is_empty_has_its_default_and_so_has_one_that_is_malformed():
    assert read("MAX_FEE_GWEI", "") == (1000, [])
    assert read("MAX_FEE_GWEI", "1e3") == (1000, ["MAX_FEE_GWEI is not a whole number of at least 1."])
    assert read("GAS_BUDGET_PER_AGENT", "") == (None, [])
    assert read("RELAYER_SEED", "") == (None, ["RELAYER_SEED is not set."])


def test_a_process_neither_reads_nor_misses_what_is_not_its_own():
    configuration = Configuration(frozenset({ProcessType.WEBHOOKS}), {"RELAYER_SEED": "5ec4e7", "MAX_FEE_GWEI": "7"})
    names = ("RELAYER_SEED", "POLICY_SIGNER_ED25519_KEY", "CHAIN_BASE_ESCROW", "MAX_FEE_GWEI")
    assert [configuration.read(name) for name in names] == [None, None, "", 7]
    assert configuration.problems == []


def test_a_chain_of_any_name_has_the_rows_of_chains_and_its_nodes_alone_are_secret():
    names = ("CHAIN_BASE_SEPOLIA_RPC_URLS", "CHAIN_BASESEPOLIA_RPC_URLS", "CHAIN_BASE_ESCROW", "CHAIN_STATE_MAX_AGE_S")
    assert [is_secret(name) for name in names] == [True, True, False, False]
    worker, webhooks = frozenset({ProcessType.WORKER}), frozenset({ProcessType.WEBHOOKS})
    assert [is_reader(worker, name) for name in names] == [True] * 4
    assert [is_reader(webhooks, name) for name in names] == [False, False, False, True]


def test_what_is_in_no_table_is_anybodys_and_cannot_be_read():
    assert find_setting("PATH") is None
    assert is_reader(frozenset({ProcessType.MCP}), "PATH")
    with pytest.raises(LookupError, match="PATH"):
        Configuration().read("PATH")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_each_row_is_read_somewhere_and_what_few_read_would_be_missed_if_it_were_misspelt(setting):
    assert re.search(rf'"{_part_of(setting.name)}"|\$\{{?{setting.name}\b|\b{setting.name}:-', _sources())
    if setting.holders != EVERY_TYPE and not setting.name.startswith(("DATABASE_", "REDIS_", "SENTRY_", "OTEL_")):
        name = f"{setting.name.replace('<ALIAS>', 'BASE')}X"
        assert find_unknown([name], [one.name for one in SETTINGS]), name


def _part_of(name: str) -> str:
    return name.removeprefix("CHAIN_<ALIAS>_")


@cache
def _sources() -> str:
    folders = ("allowance", "chains", "clients", "foundation", "operators", "owner", "payments", "services", "workshop")
    files = [path for one in folders for path in (_ROOT / one).rglob("*.py") if "tests" not in path.parts]
    return "\n".join(path.read_text() for path in [*files, _ROOT / "Procfile"] if path != _TABLE)
