"""Whoever asks the rules says all that they are asked about."""

import ast

from policy.facts import make_facts
from tests.test_project import ROOT, python_files


def test_facts_are_made_in_one_place_that_has_no_defaults():
    makers = {
        path.relative_to(ROOT).as_posix()
        for path in python_files("policy", "ledger", "payments")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Facts"
    }

    assert makers == {"policy/facts.py"}
    assert make_facts.__kwdefaults__ is None
