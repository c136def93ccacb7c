"""`manage.py setup [--database-url U] [--redis-url U] [--host H] [--chain C=U,U ...] [--add] [--split DIRECTORY]`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.catalogue import Chain, Vm
from foundation.commands import JsonCommand
from operators.setup import answers, env_file, variables
from operators.setup.checks import find_problems, find_served
from operators.setup.next_steps import find_missing, public_addresses
from operators.setup.split import split


class Command(JsonCommand):
    help = (
        "Make the keys of an installation and write them, with where its servers, nodes and pages are, to a file that "
        "only its owner reads. Asks for what is not given by an option and is not in the environment; checks each "
        "answer as the processes will. Prints the addresses that belong to the keys, and what is still missing with "
        "the command that gives it; never a secret. It changes nothing that a file has: with --add it adds what is "
        "missing there, such as the variables of another chain. --split copies, for each type of process, the "
        "variables that it reads."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", default=".env", metavar="FILE", help="Where the variables are (default: .env).")
        parser.add_argument(
            "--database-url",
            metavar="URL",
            help="PostgreSQL: postgres://user:password@host:5432/name. Every user of this machine can read the "
            "arguments of a command while it runs: best set DATABASE_URL, REDIS_URL, CHAIN_<ALIAS>_RPC_URLS instead.",
        )
        parser.add_argument("--redis-url", metavar="URL", help="Redis: redis://… or rediss://….")
        parser.add_argument("--host", metavar="NAME", help="The host names that are answered, separated by commas.")
        parser.add_argument(
            "--chain",
            action="append",
            default=[],
            metavar="CHAIN=URL,URL",
            help="A chain that is served, with the addresses of its nodes. May be repeated.",
        )
        parser.add_argument("--console-url", metavar="URL", help="The console's address, for the links of notices.")
        parser.add_argument("--no-input", action="store_true", help="Ask nothing; what is not given stays missing.")
        way = parser.add_mutually_exclusive_group()
        way.add_argument("--add", action="store_true", help="Add to the file what is missing there.")
        way.add_argument(
            "--split", metavar="DIRECTORY", help="Write web.env, worker.env, webhooks.env, beat.env, release.env there."
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        path = Path(options["file"])
        try:
            if options["split"]:
                folder = Path(options["split"])
                return {"directory": str(folder), "files": split(_read_complete(path), path, folder)}
            return self._set_up(path, options)
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from None

    def _set_up(self, path: Path, options: dict[str, Any]) -> dict[str, Any]:
        if path.exists() and not options["add"]:
            raise FileExistsError(f"{path} is there, and stays as it is. --add adds what is missing in it.")
        present = _read(path) if options["add"] else {}
        added = self._collect(present, options)
        values = {**present, **added}
        served = [one.chain for one in find_served(values)]
        if options["add"]:
            env_file.append(path, variables.render_added(added, served))
        else:
            env_file.create(path, variables.render(values, served))
        return self._report(path, [*added], values, served)

    def _collect(self, present: Mapping[str, str], options: dict[str, Any]) -> dict[str, str]:
        """Collect what the file is to have besides: answers, and the keys that are missing."""
        given = answers.read_options(options)
        answers.refuse_other_values(present, given)
        known = {} if settings.EMBEDDED else answers.read_environment(os.environ)
        values = {**known, **given, **present}
        if not options["no_input"] and sys.stdin.isatty():
            values |= answers.ask(values, input, self.stderr.write)
        problems = find_problems(values)
        if problems:
            raise ValueError(" ".join(problems))
        served = [one.chain for one in find_served(values)]
        return {name: value for name, value in _completed(values, served).items() if name not in present}

    def _report(self, path: Path, added: list[str], values: Mapping[str, str], served: list[Chain]) -> dict[str, Any]:
        addresses, missing = public_addresses(values, served), find_missing(values, served)
        self.stdout.write(f"{path}: added {', '.join(added) or 'nothing'}.")
        for name, value in addresses.items():
            for one in [value] if isinstance(value, str) else value:
                self.stdout.write(f"  {name:<13} {one}")
        for name, command in missing.items():
            self.stdout.write(f"Missing: {name}. {command}")
        self.stdout.write("docs/operate/deploying.md goes on from here.")
        return {"file": str(path), "added": added, **addresses, "missing": missing}


def _read(path: Path) -> dict[str, Any]:
    try:
        return {**env_file.read_variables(path.read_bytes().decode())}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_complete(path: Path) -> dict[str, Any]:
    """Read what processes can be started with: what lacks a variable is not split, for nothing would start."""
    values = _read(path)
    problems = find_problems(values)
    missing = find_missing(values, [one.chain for one in find_served(values)])
    if problems or missing:
        raise ValueError(" ".join([*problems, *(f"{path}: {name} is missing. {how}" for name, how in missing.items())]))
    return values


def _completed(values: Mapping[str, str], served: list[Chain]) -> dict[str, str]:
    """Add the keys that are missing, and what a chain with real money must have."""
    is_solana = any(chain.vm is Vm.SOLANA for chain in served)
    needed = [key for key in variables.KEYS if is_solana or "SOLANA" not in key.name]
    made = {key.name: key.make() for key in needed if key.make and key.name not in values}
    least = {f"{chain.variables}_MIN_PAYMENT": variables.least_of(chain) for chain in served if not chain.is_test}
    return {**least, **made, **values}
