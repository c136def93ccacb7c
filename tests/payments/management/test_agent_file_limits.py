"""`create_agent --from FILE`: the optional limits of the agents of a file."""

from functools import partial
from pathlib import Path

import pytest

from policy.models import PolicyRevision
from policy.more_limits import NO_MORE, MoreLimits, write_more
from tests.support.agent_files import HEADER, Write, make, names, refusal, write_agent_file
from tests.support.limit_ladders import LADDERS, limited, optional

pytestmark = pytest.mark.django_db


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_agent_file, tmp_path)


def more_of(name: str) -> MoreLimits:
    return PolicyRevision.objects.get(agent=name).more


def test_optional_limits_are_columns_by_their_names_and_an_empty_cell_is_no_limit(write):
    one, two, three = names(3)
    header = f"{HEADER},hourly_limit,payments_per_day,payee_limits,allowed_hours"
    hours = '"mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin"'
    make(
        write(
            f'{one},USDC,1,2,3,5,7,"b: day 5, week none\na: payment 1",{hours}',
            f"{two},USDC,1,2,3,,0,,",
            f"{three},USDC,1,2,3,none,,,",
            header=header,
        )
    )

    assert write_more(more_of(one)) == (
        '{"allowedHours":"mon-fri 09:00-17:00, sat 10:00-14:00 Europe/Berlin","hourlyLimit":"5.00",'
        '"payeeLimits":"a: payment 1.00; b: day 5.00, week none","paymentsPerDay":"7"}'
    )
    assert more_of(two) == MoreLimits(payments_per_day=0)
    assert more_of(three) == NO_MORE


@pytest.mark.parametrize(("field", "text"), [(field, ladder[-1]) for field, ladder in LADDERS.items()])
def test_each_optional_limit_is_a_column_and_another_run_finds_it_as_it_was(write, field, text):
    known, other = names(2)
    beside = {name: str(value) for name, value in optional(field, text).items() if name != field}
    header = ",".join([HEADER, *beside, field])
    lines = [
        f'{name},USDC,1,2,3,{"".join(f"{value}," for value in beside.values())}"{text}"' for name in (known, other)
    ]
    make(write(lines[0], header=header))

    again = make(write(*lines, header=header))

    assert (again["created"], again["unchanged"]) == (1, [known])
    assert more_of(known) == more_of(other) == limited(field, text)
    assert f"There is an agent {known} already, with another asset or policy" in refusal(write(f"{known},USDC,1,2,3"))


def test_another_run_takes_the_same_limits_written_otherwise_for_the_same(write):
    (name,) = names(1)
    header = f"{HEADER},total_limit,allowed_until,payee_limits,allowed_hours"
    # The moment is finer than the database has it.
    path = write(
        f"{name},USDC,1,2,3,5,2099-01-01T00:00:00.0004Z,b: day 1; a: day 2,DAILY 09:00-17:00 UTC", header=header
    )
    make(path)

    assert make(path)["unchanged"] == [name]
    same = f"{name},USDC,1.0,2.00,3,5.000,2099-01-01T01:00:00+01:00,a: day 2.00; b: day 1.0,daily  09:00-17:00 UTC"
    assert make(write(same, header=header))["unchanged"] == [name]


def test_every_optional_limit_that_is_wrong_is_named_with_its_line_and_its_column(write):
    header = f"{HEADER},hourly_limit,payments_per_day,payee_limits,allowed_hours,allowed_from,new_payee_payments"
    said = refusal(
        write(
            "a,USDC,1,2,3,1e3,,,,,",
            "b,EURC,1,2,3,,-1,,,,",
            "c,SOL,1,2,3,,,shop: day 0.0000000001,,,",
            "d,USDC,1,2,3,,,,9-17 UTC,,",
            "e,USDC,1,2,3,,,,,today,",
            "f,USDC,1,2,3,,,,,,2",
            "g,USDC,1,2,3,,, ,,,",
            header=header,
        )
    ).splitlines()

    reasons = [
        "hourly_limit: Must be a plain decimal",
        "payments_per_day: Must be a whole number",
        "payee_limits: shop, day: SOL has 9 decimals.",
        "allowed_hours: Must be hours with a time zone",
        "allowed_from: Must be a timestamp",
        "To limit the first payments to a payee, give their number",
        "payee_limits: Must be 1 to 500 payees.",
    ]
    for told, (line, reason) in zip(said[1:], enumerate(reasons, 2), strict=True):
        assert told.startswith(f"line {line}: {reason}")


@pytest.mark.parametrize("column", ["hourlyLimit", "hourly-limit", "hourly_limit,hourly_limit"])
def test_a_header_that_names_no_column_is_told_all_that_there_are(write, column):
    said = refusal(write("a,USDC,1,2,3,5", header=f"{HEADER},{column}"))

    assert said.startswith("--from: The first line must name the columns id, asset")
    assert all(name in said for name in ("fund, chain, services", *LADDERS))
