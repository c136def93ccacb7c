"""Exports: files that are sent while they are read, and that a spreadsheet takes for text and numbers only."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.console import exports
from foundation.console.exports import stream
from foundation.kernel.times import utc_now
from staff.models import AuditEntry

VALUE = {"value": lambda row: row}


def text_of(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


def cells(*values: Any) -> list[str]:
    lines = list(csv.reader(io.StringIO(text_of(stream(values, VALUE, "csv", name="values")).removeprefix("\ufeff"))))
    assert lines[0] == ["value"]
    return [line[0] for line in lines[1:]]


@pytest.mark.parametrize("separator", [";", "; ", "\t"])
def test_a_formula_behind_what_separates_cells_elsewhere_gets_an_apostrophe(separator: str) -> None:
    assert cells(f"Lunch{separator}=1+2") == [f"Lunch{separator}'=1+2"]
    assert cells(f"Lunch{separator}dinner") == [f"Lunch{separator}dinner"]


@pytest.mark.parametrize(
    "formula", ["=1+2", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1", "-", "+1.5.2"]
)
def test_what_a_spreadsheet_would_take_for_a_formula_gets_an_apostrophe(formula: str) -> None:
    assert cells(formula) == [f"'{formula}"]


@pytest.mark.parametrize("number", ["-0.50", "+12", "-1000000", "0.000001"])
def test_plain_numbers_stay_numbers(number: str) -> None:
    assert cells(number) == [number]


def test_values_are_written_as_the_api_writes_them() -> None:
    at = datetime(2026, 11, 23, 5, 14, tzinfo=UTC)

    assert cells(Decimal("1250.5000"), at, None, True, ["USDC"], 'a,"b"') == [
        "1250.50", "2026-11-23T05:14:00.000Z", "", "true", '["USDC"]', 'a,"b"',
    ]  # fmt: skip
    lines = text_of(stream([Decimal("1.5"), at, None, "=1"], VALUE, "jsonl", name="values")).splitlines()
    assert [json.loads(line)["value"] for line in lines] == ["1.50", "2026-11-23T05:14:00.000Z", None, "=1"]


def test_the_names_of_the_columns_are_there_without_rows() -> None:
    assert cells() == []


def test_the_file_has_a_name_and_a_type() -> None:
    response = stream([], VALUE, "jsonl", name="audit")

    assert response["Content-Disposition"] == f'attachment; filename="audit-{utc_now():%Y-%m-%d}.jsonl"'
    assert response["Content-Type"].startswith("application/jsonl")


def test_an_unknown_format_is_an_error() -> None:
    with pytest.raises(KeyError):
        stream([], VALUE, "xlsx", name="audit")


def test_rows_are_read_while_the_file_is_taken() -> None:
    taken = []

    def rows() -> Iterator[int]:
        for number in range(10 * exports.BATCH_SIZE):
            taken.append(number)
            yield number

    response: Any = stream(rows(), VALUE, "csv", name="numbers")
    next(iter(response))

    assert len(taken) == exports.BATCH_SIZE


def test_a_queryset_is_read_in_batches_each_once_and_complete(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "BATCH_SIZE", 10)
    AuditEntry.objects.bulk_create(
        AuditEntry(at=utc_now(), author="ann", action="a.b", subject_type="a", subject=str(number))
        for number in range(25)
    )

    with CaptureQueriesContext(connection) as found:
        text = text_of(stream(AuditEntry.objects.all(), {"subject": lambda row: row.subject}, "csv", name="audit"))

    assert text.removeprefix("\ufeff").split() == ["subject", *(str(number) for number in range(25))]
    reads = [query["sql"] for query in found.captured_queries if query["sql"].startswith("SELECT")]
    assert len(reads) == 3
    assert all("LIMIT 10" in read for read in reads)


def test_an_export_that_takes_too_long_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_LONGEST_EXPORT_S", -1)

    with pytest.raises(TimeoutError):
        text_of(stream(["a"], VALUE, "csv", name="values"))
