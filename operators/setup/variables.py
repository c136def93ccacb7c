"""The file of variables: those of the table of settings that an installation normally sets. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from chains.catalogue import Chain, Vm
from foundation.environment.table import SETTINGS, Setting
from foundation.kernel.assets import Asset
from operators.setup.env_file import line_of

_HEAD = """\
# The variables of this installation. docs/operate/settings.md says all of each, and has more of them.
# It holds keys that move money: keep a backup of it in a safe place, apart from the database's.
# Each line is NAME=value or NAME='value', which shells, systemd and Docker Compose read the same.
"""
_GENERAL = [one for one in SETTINGS if not one.is_of_a_chain]
# What only the operator knows; what setup makes.
ASKED = [one for one in _GENERAL if one.is_required and not one.make]
KEYS = [one for one in _GENERAL if one.make]
# A chain with real money is not released without a least amount: each payment costs gas.
_LEAST = {Asset.SOL: "0.001"}


def least_of(chain: Chain) -> str:
    """Suggest the smallest payments of a chain."""
    return ",".join(f"{asset}={_LEAST.get(asset, '0.01')}" for asset in chain.tokens)


def render(values: Mapping[str, str], served: Sequence[Chain]) -> str:
    """Write the whole file."""
    sections = {
        "Servers": ASKED,
        **{f"{chain.alias}, {chain.caip2}": _of_chain(chain) for chain in served},
        "Keys": KEYS,
        "What may be set besides": [one for one in _GENERAL if one.example and not one.is_required],
    }
    text = [_HEAD]
    for title, settings in sections.items():
        text += [f"# --- {title} ---", *_lines(settings, values), ""]
    return "\n".join(text)


def render_added(values: Mapping[str, str], served: Sequence[Chain]) -> str:
    """Write the lines of some variables that a file is to have besides."""
    known = [*_GENERAL, *(one for chain in served for one in _of_chain(chain))]
    return "\n".join(["", *_lines((one for one in known if one.name in values), values), ""])


def _of_chain(chain: Chain) -> Iterator[Setting]:
    for one in SETTINGS:
        if one.is_of_a_chain and (one.is_required or one.example):
            name = one.name.replace("CHAIN_<ALIAS>", chain.variables)
            if chain.vm is Vm.SOLANA or not name.endswith("_OWNER"):
                yield replace(one, name=name, example=least_of(chain) if name.endswith("_MIN_PAYMENT") else one.example)


def _lines(settings: Iterable[Setting], values: Mapping[str, str]) -> Iterator[str]:
    """Write what each variable is, and its line, commented out if it has no value."""
    for one in settings:
        yield f"# {one.sentence}"
        value = values.get(one.name)
        yield line_of(one.name, value) if value else f"# {one.name}={one.example}"
