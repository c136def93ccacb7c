"""Where nothing is wrong the doctor finds nothing, changes nothing and asks of everything."""

import json
import re

import pytest
from django.db import InternalError

from operators.doctor.diagnoses import Check, State, ok
from operators.doctor.examining import examine
from operators.doctor.registry import CHECKS
from policy.models import Agent
from tests.documents.pages import text_of
from tests.support.answers import count_rows
from tests.support.commands import run


@pytest.mark.usefixtures("processes", "staff", "role", "compared", "protected", "mail", "on_time")
def test_a_healthy_installation_has_no_trouble_and_is_left_as_it_is():
    rows = count_rows()
    found = list(examine(CHECKS))

    wrong = [finding for _, finding in found if finding.state in (State.WARNING, State.ERROR)]
    # Whether the disk of the machine that tests is full is not ours to say.
    assert [finding for finding in wrong if finding.subject != "disk"] == []
    assert {check for check, _ in found} == {*CHECKS}
    assert count_rows() == rows


@pytest.mark.usefixtures("db")
def test_a_check_that_would_write_is_refused_by_the_database_and_the_others_go_on():
    def write():
        Agent.objects.update(balance=0)
        yield ok("agents", "All are poor now.")

    checks = [
        Check("staff", "agents", write, needs=CHECKS[-1].needs),
        Check("staff", "more", lambda: iter([ok("a", "b")])),
    ]
    (_, refused), (_, fine) = examine(checks)

    assert refused.state == State.ERROR
    assert InternalError.__name__ in refused.says
    assert "read-only transaction" in refused.says
    assert fine.says == "b"
    Agent.objects.update(balance=0)  # the test's own transaction may write


@pytest.mark.usefixtures("processes")
def test_the_command_prints_each_area_with_mends_and_one_json_object_at_the_end(monkeypatch):
    monkeypatch.setenv("LOGLEVEL", "INFO")
    lines, told = run("doctor", "--only", "configuration", "--only", "Redis")

    assert told is None
    assert [line for line in lines if re.fullmatch(r"\w+", line)] == ["configuration", "Redis"]
    at = next(index for index, line in enumerate(lines) if "LOGLEVEL" in line)
    assert lines[at].split()[0] == "warning"
    assert lines[at + 1].split() == [
        "mend:",
        *["Rename", "LOGLEVEL", "to", "LOG_LEVEL;", "leave", "it", "if", "another", "program", "reads", "it."],
    ]
    result = json.loads(lines[-1])
    assert (result["errors"], result["warnings"]) == (0, 1)
    assert {finding["area"] for finding in result["findings"]} == {"configuration", "Redis"}


def test_the_page_has_every_check_and_no_other():
    table = text_of("docs/operate/doctor.md").split("| Area | Looks at |")[1].split("\n\n")[0]
    told = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table.splitlines()[2:]]

    assert told == [(check.area, check.looks_at) for check in CHECKS]
