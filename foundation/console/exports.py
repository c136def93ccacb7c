"""Send many rows as a file, CSV or JSON lines, while they are read: never all of them at once.

The columns bear the names and the writing of the API: amounts and instants as there. The CSV is for spreadsheets, which
take a cell like `=1+2` for a formula: text that would begin one gets an apostrophe in front.
"""

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from foundation.database import brief_read, reading_alias, reading_from
from foundation.groups import in_batches_of_all
from foundation.kernel.money import format_amount
from foundation.kernel.times import format_instant, utc_now

# A column's name in the file, and how it is read from a row.
Columns = Mapping[str, Callable[[Any], Any]]

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
BATCH_SIZE = 1_000
# A batch may have to look for its rows among a million others.
_LONGEST_BATCH_MS = 30_000
_LONGEST_EXPORT_S = 15 * 60
# Spreadsheets read CSV in the computer's own encoding unless it begins so.
_BYTE_ORDER_MARK = "\N{BYTE ORDER MARK}"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_BEGINS_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001 - some spreadsheets take the wide ones, too
# Where the comma separates decimals, spreadsheets begin the next cell behind a semicolon, or behind a tab.
_LATER_CELL = re.compile(r"(?<=.)([;\t]\s*)(?=[=+\-@＝＋－＠])")  # noqa: RUF001


def stream(
    rows: "QuerySet[Any] | Iterable[Any]",
    columns: Columns,
    file_format: str,
    *,
    name: str,
    order: str = "pk",
    period: str = "",
) -> StreamingHttpResponse:
    """Answer with a file of rows: `csv` or `jsonl`. Its name begins with `name`; then comes the period, or today.

    A queryset is read in batches in the order of `order`, a field with an index, each from where this page reads. If
    that fails or takes too long, the answer breaks off, and the browser says that the file is not complete.

    Raises:
        KeyError: no such format.
    """
    content_type = FORMATS[file_format]
    batches = _read(rows, order, reading_alias()) if isinstance(rows, QuerySet) else _cut(iter(rows))
    body = _as_csv(batches, columns) if file_format == "csv" else _as_json_lines(batches, columns)
    response = StreamingHttpResponse(_in_time(body), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}-{period or f"{utc_now():%Y-%m-%d}"}.{file_format}"'
    return response


def _read(rows: "QuerySet[Any]", order: str, alias: str) -> Iterator[list[Any]]:
    found = in_batches_of_all(rows.using(alias), order, size=BATCH_SIZE)
    while True:
        # One transaction for each batch: a reader who takes long holds none, nor a session of the database.
        with reading_from(alias), brief_read(alias, limit_ms=_LONGEST_BATCH_MS):
            batch = list(islice(found, BATCH_SIZE))
        if not batch:
            return
        yield batch


def _cut(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(rows, BATCH_SIZE)):
        yield batch


def _as_csv(batches: Iterator[list[Any]], columns: Columns) -> Iterator[str]:
    text = io.StringIO()
    write = csv.writer(text).writerow
    text.write(_BYTE_ORDER_MARK)
    write(columns)
    for batch in batches:
        for row in batch:
            write(_cell(read(row)) for read in columns.values())
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()  # the names alone, if there are no rows


def _as_json_lines(batches: Iterator[list[Any]], columns: Columns) -> Iterator[str]:
    for batch in batches:
        lines = ({name: _plain(read(row)) for name, read in columns.items()} for row in batch)
        yield "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format_amount(value)
    return format_instant(value) if isinstance(value, datetime) else value


def _cell(value: Any) -> str:
    plain = _plain(value)
    if plain is None:
        return ""
    if isinstance(plain, bool | dict | list):
        plain = json.dumps(plain, ensure_ascii=False)
    text = _LATER_CELL.sub(r"\1'", str(plain))
    begins_formula = text.startswith(_BEGINS_FORMULA) or text.lstrip().startswith(_BEGINS_FORMULA)
    return f"'{text}" if begins_formula and not _NUMBER.fullmatch(text) else text


def _in_time(body: Iterator[str]) -> Iterator[str]:
    end = time.monotonic() + _LONGEST_EXPORT_S
    for part in body:
        yield part
        if time.monotonic() > end:
            raise TimeoutError(f"The export took longer than {_LONGEST_EXPORT_S} s.")
