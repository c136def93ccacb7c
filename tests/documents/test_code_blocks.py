"""The code blocks of the pages: what they run exists, and what they show can be read."""

import ast
import io
import json
import re
import shlex
import subprocess
from argparse import Action
from contextlib import redirect_stderr

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError, CommandParser

from tests.documents.pages import Block, blocks_of, pages, prose_of, text_of

LANGUAGES = {"bash", "ini", "python", "javascript", "typescript", "json", "text", "mermaid"}
BLOCKS = [block for page in pages() for block in blocks_of(page)]
_TARGETS = set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))
_SEPARATORS = re.compile(r"&&|\|\||[|;]")


def blocks_in(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def test_every_block_names_its_language():
    assert [f"{block}: {block.language}" for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", blocks_in("python"), ids=str)
def test_python_compiles(block):
    ast.parse(block.text)


@pytest.mark.parametrize("block", blocks_in("json"), ids=str)
def test_json_can_be_read(block):
    json.loads(block.text)


@pytest.mark.parametrize("block", blocks_in("bash"), ids=str)
def test_a_shell_can_read_the_commands(block):
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


def _commands() -> list[tuple[str, str]]:
    """Find all commands of pages: lines of blocks, and what stands in backticks in the prose."""
    found = [(str(block), line) for block in blocks_in("bash") for line in _lines(block.text)]
    for page in pages():
        found += [(page, " ".join(code.split())) for code in re.findall(r"`([^`]+)`", prose_of(page))]
    return found


def _lines(script: str) -> list[str]:
    return script.replace("\\\n", " ").splitlines()


@pytest.mark.parametrize(("where", "command"), [one for one in _commands() if re.search(r"(^|\s)make [a-z]", one[1])])
def test_every_target_of_make_that_a_page_names_is_there(where, command):
    named = re.findall(r"(?:^|\s)make ([a-z-]+)", re.sub(r"#.*", "", command))

    assert [target for target in named if target not in _TARGETS] == [], where


def _uses_of_commands() -> list[tuple[str, str]]:
    """Find what pages run by `manage.py`, or write as a command with its options."""
    known = get_commands()
    uses = []
    for where, text in _commands():
        for part in _SEPARATORS.split(text.replace("\\|", " ")):  # a bar in a cell of a table
            if found := re.search(r"manage\.py ([a-z_]+.*)", part):
                uses.append((where, found[1]))
            elif part.split() and part.split()[0] in known and part.split()[0] not in {"check", "test", "shell"}:
                uses.append((where, part))
    return uses


@pytest.mark.parametrize(("where", "use"), sorted(set(_uses_of_commands())))
def test_every_command_that_a_page_names_is_there_with_its_options(where, use):
    words = _words(use)
    parser = _parser(words[0])
    options = {option for action in _actions(parser) for option in action.option_strings}

    assert [word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in options] == [], where


def _words(use: str) -> list[str]:
    """Split a use into words; brackets and bars of a synopsis mean choices."""
    return shlex.split(re.sub(r"[][()…]", " ", use.partition(" #")[0]).replace("'", ""))


def _parser(name: str) -> CommandParser:
    app = get_commands()[name]
    command = app if isinstance(app, BaseCommand) else load_command_class(app, name)
    return command.create_parser("manage.py", name)


def _actions(parser: CommandParser) -> list[Action]:
    actions = list(parser._actions)
    for action in parser._actions:
        choices = action.choices
        if isinstance(choices, dict):
            actions += [inner for sub in choices.values() for inner in sub._actions]
    return actions


@pytest.mark.parametrize("block", [one for one in blocks_in("bash") if "manage.py" in one.text], ids=str)
def test_commands_in_blocks_take_their_arguments(block):
    """A line of a block is run as it stands: its parser has to accept all of it."""
    for line in _lines(block.text):
        found = re.search(r"manage\.py ([a-z_]+.*)", line)
        if found is None:
            continue
        words = shlex.split(re.split(r"[|>;&)]", found[1])[0])
        try:
            with redirect_stderr(io.StringIO()):
                _parser(words[0]).parse_args(words[1:])
        except CommandError as error:
            pytest.fail(f"{block}: {line}: {error}")


def test_the_page_of_commands_has_every_command():
    apps = {"ledger", "operators", "owner", "payments", "policy", "services", "staff", "workshop"}
    ours = {name for name, app in get_commands().items() if app in apps}
    page = text_of("docs/operate/commands.md") + text_of("docs/demo.md")

    assert [name for name in sorted(ours) if not re.search(rf"[`\s]{name}\b", page)] == []
