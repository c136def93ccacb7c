"""What the project promises about its own files."""

import ast
import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.hard import PARTS, Part, play_all

ROOT = Path(__file__).parent.parent
PRODUCT = [
    "allowance",
    "operators",
    "backoffice",
    "payments",
    "ledger",
    "services",
    "policy",
    "staff",
    "chains",
    "foundation",
]
PACKAGES = [*PRODUCT, "owner", "workshop"]
TESTS = ["tests", "owner/tests", "workshop/tests"]
LOCKS = ["requirements.txt", "requirements-embedded.txt", "requirements-dev.txt"]
# What a benchmark runs in an environment of its own: it has nothing to do with the other locks.
APART = "tests/benchmarks/facilitator/requirements.txt"
NPM_LOCKS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("clients", "tests")
    for path in (ROOT / folder).rglob("package-lock.json")
)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Imports the modules that are its arguments; prints which files and pools they opened, and how many threads run.
IMPORT = """
import gc, importlib, mmap, os, sys, threading
from concurrent.futures import Executor
import asgiref.sync, django  # a library's pool of one thread is not ours
from allowance.boot import boot

def opened():
    return [one for one in gc.get_objects() if isinstance(one, (Executor, mmap.mmap))]

boot()
django.setup()
files, known = set(os.listdir("/proc/self/fd")), opened()
for module in sys.argv[1:]:
    importlib.import_module(module)
ours = [one for one in opened() if not any(one is other for other in known)]
print(set(os.listdir("/proc/self/fd")) - files, ours, threading.active_count())
"""
WORKSHOP = tomllib.loads((ROOT / "workshop/pyproject.toml").read_text())
OWNER = tomllib.loads((ROOT / "owner/pyproject.toml").read_text())
CONTRACTS = [one for where in (PYPROJECT, OWNER, WORKSHOP) for one in where["tool"]["importlinter"]["contracts"]]
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
LAPTOP = WORKSHOP["project"]["dependencies"]


@pytest.mark.parametrize("lock", [*LOCKS, APART])
def test_a_lock_names_no_index_no_address_and_no_path(lock: str) -> None:
    text = (ROOT / lock).read_text()

    assert "://" not in text
    assert not re.search(r"^\s*(-i|-f|-e|--[a-z-]*(index|links|host|editable)|[./])", text, re.MULTILINE)


@pytest.mark.parametrize("lock", [*LOCKS, APART])
def test_every_package_in_a_lock_has_a_hash(lock: str) -> None:
    blocks = re.split(r"^(?=[a-z0-9])", (ROOT / lock).read_text(), flags=re.MULTILINE)[1:]

    assert blocks
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


@pytest.mark.parametrize("lock", NPM_LOCKS)
def test_a_lock_of_npm_names_no_address_and_has_a_hash_of_every_package(lock: str) -> None:
    text = (ROOT / lock).read_text()

    assert "resolved" not in text
    assert "://" not in text
    packages = json.loads(text)["packages"]
    assert [name for name, package in packages.items() if name and "integrity" not in package] == []


@pytest.mark.parametrize(
    ("lock", "added"),
    [
        ("requirements.txt", []),
        ("requirements-embedded.txt", LAPTOP),
        ("requirements-dev.txt", [*LAPTOP, *EXTRAS["dev"]]),
    ],
)
def test_a_lock_contains_every_dependency_that_is_declared(lock: str, added: list[str]) -> None:
    declared = [*PYPROJECT["project"]["dependencies"], *added]

    assert {_name(requirement) for requirement in declared} - pins(lock).keys() == set()


def test_a_server_installs_nothing_that_only_a_laptop_or_a_developer_needs() -> None:
    needed = {_name(requirement) for extra in EXTRAS.values() for requirement in extra} | {_name(one) for one in LAPTOP}
    elsewhere = needed - {_name(requirement) for requirement in PYPROJECT["project"]["dependencies"]}

    assert elsewhere & pins("requirements.txt").keys() == set()


@pytest.mark.parametrize(("small", "large"), list(itertools.pairwise(LOCKS)))
def test_a_larger_lock_keeps_every_pin_of_the_smaller(small: str, large: str) -> None:
    assert pins(small).items() - pins(large).items() == set()


def test_the_procfile_names_the_processes() -> None:
    lines = (ROOT / "Procfile").read_text().splitlines()

    assert [line.split(":")[0] for line in lines] == ["release", "web", "worker", "webhooks", "beat", "mcp"]


def test_no_file_has_a_name_that_says_nothing() -> None:
    vague = {"services.py", "utils.py", "helpers.py", "common.py"}

    assert [path for path in python_files(*PACKAGES, *TESTS) if path.name in vague] == []


def test_only_the_evm_adapter_imports_web3() -> None:
    adapter = ROOT / "chains" / "evm"
    elsewhere = [path for path in python_files(*PACKAGES) if adapter not in path.parents]

    assert [path for path in elsewhere if "web3" in _imported(path)] == []


def test_nothing_that_decides_settles_or_books_money_is_asynchronous() -> None:
    waits_for_many_sockets = ("allowance/front/", "backoffice/alarms/", "operators/doctor/", "services/webhooks/")
    found = {path.relative_to(ROOT).as_posix() for path in python_files(*PRODUCT) if _is_asynchronous(path)}

    assert found
    assert [name for name in sorted(found) if not name.startswith(waits_for_many_sockets)] == []


def test_every_module_that_calls_itself_pure_is_kept_so_by_the_contract() -> None:
    kept = [module for one in CONTRACTS if one["id"] == "pure" for module in one["source_modules"]]
    pure = {_module(path) for path in python_files(*PACKAGES) if re.search(r"\bPure\b", _docstring(path))}

    assert pure
    assert [module for module in sorted(pure) if not any(f"{module}.".startswith(f"{one}.") for one in kept)] == []


def test_the_product_belongs_to_nobody_above_it() -> None:
    layers = next(one["layers"] for one in CONTRACTS if one["id"] == "floors")

    assert layers == PRODUCT


def test_the_contracts_of_imports_can_be_read_in_one_sitting() -> None:
    text = (ROOT / "pyproject.toml").read_text()

    assert len(text[text.index("[tool.importlinter]") :].splitlines()) <= 400


def test_importing_opens_no_file_and_makes_no_pool_of_threads() -> None:
    started = {"__main__.py", "asgi.py", "wsgi.py"}  # these are run, not imported
    modules = sorted(_module(path) for path in python_files(*PACKAGES) if path.name not in started)

    result = subprocess.run(
        [sys.executable, "-c", IMPORT, *modules], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert result.stdout == "set() [] 1\n"


def test_every_exception_from_the_style_rules_says_why() -> None:
    config = (ROOT / "pyproject.toml").read_text()
    ruff = config[config.index("[tool.ruff.lint]") : config.index("[tool.mypy]")]
    exceptions = re.findall(r'^    "[A-Z]+[0-9]*",.*$', ruff, re.MULTILINE)

    assert len(exceptions) > len(PYPROJECT["tool"]["ruff"]["lint"]["ignore"])
    assert [line for line in exceptions if not re.search(r"# \S+ \S+", line)] == []


def test_every_exception_from_the_check_of_dependencies_says_why() -> None:
    config = (ROOT / "pyproject.toml").read_text()
    table = config[config.index("[tool.deptry.per_rule_ignores]") :]
    exceptions = re.findall(r'^    ".*$', table[: table.index("\n\n")], re.MULTILINE)

    assert len(exceptions) == sum(map(len, PYPROJECT["tool"]["deptry"]["per_rule_ignores"].values()))
    assert [line for line in exceptions if not re.search(r"# \S+ \S+", line)] == []


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


def python_files(*folders: str) -> list[Path]:
    found = [(folder, path) for folder in folders for path in (ROOT / folder).rglob("*.py")]
    # Tests of a distribution lie beside it.
    files = [path for folder, path in found if "tests" not in path.relative_to(ROOT / folder).parts]
    assert files
    return files


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=~! ;]", requirement)[0].lower()


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def _is_asynchronous(path: Path) -> bool:
    return any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(ast.parse(path.read_text())))


def _imported(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {module.split(".")[0] for module in modules}


def test_every_test_that_the_security_page_names_is_there() -> None:
    folder = Path()
    named = re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)`", (ROOT / "SECURITY.md").read_text())

    assert named
    for name in named:
        # One without a folder is in that of the one before it.
        folder = (ROOT / name).parent if "/" in name else folder
        assert (folder / Path(name).name).exists(), name


def test_what_make_test_leaves_out_is_listed_with_what_stays() -> None:
    marked = {
        path.relative_to(ROOT).as_posix()
        for folder in TESTS
        for path in (ROOT / folder).rglob("test_*.py")
        if re.search(r"\bmark\.hard\b", path.read_text()) and path != Path(__file__)
    }
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| Left out of `make test` |")[2].partition("\n\n")[0]

    assert set(re.findall(r"^\| `(\S+\.py)`", table, re.MULTILINE)) == marked


def test_make_hard_has_every_command_that_takes_long_but_the_benchmarks() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| Command | Run it when you change |")[2]
    commands = re.findall(r"^\| `((?:\S+=1 )?make [a-z-]+)`", table.partition("\n\n")[0], re.MULTILINE)

    played = {re.sub(r" ARGS=.*", "", part.command) for part in PARTS}
    assert {command for command in commands if "bench" not in command} == played - {"make hard-tests"}


def test_a_part_that_fails_fails_make_hard_and_the_others_are_played(capfd: pytest.CaptureFixture[str]) -> None:
    parts = (Part("false"), Part("echo played"), Part("true", ("a-program-that-nobody-has",)))

    assert not play_all(parts)
    told = capfd.readouterr().out
    assert "\nplayed\n" in told
    assert re.search(r"false +FAILED in \d+ s, with status 1", told)
    assert re.search(r"true +left out: needs a-program-that-nobody-has", told)
    assert play_all(parts[1:])
