"""Where errors and traces are reported to: what is accepted, and what is refused at the start."""

import pytest

from foundation.environment.telemetry import read_collector, read_dsn, read_headers, with_package
from tests.support.configurations import GOOD, read_settings

DSN = "https://0123456789abcdef@o1.ingest.sentry.example/42"


@pytest.mark.parametrize("dsn", [DSN, "https://k@sentry.internal/path/7", "http://k@localhost:3000/1"])
def test_a_dsn_is_accepted(dsn):
    assert read_dsn(dsn) == dsn


@pytest.mark.parametrize(
    "dsn",
    ["http://key@sentry.example/1", "https://sentry.example/1", "https://key@sentry.example/", "key", "https://k@/1"],
)
def test_what_is_no_dsn_or_would_go_out_in_the_clear_is_refused_without_being_named(dsn):
    problems = read_settings({**GOOD, "SENTRY_DSN": dsn})["CONFIGURATION_PROBLEMS"]
    assert problems == ["SENTRY_DSN is not a DSN such as https://KEY@HOST/PROJECT."]


@pytest.mark.parametrize("address", ["http://collector:4318", "https://otlp.example/some/path/"])
def test_a_collector_is_accepted(address):
    assert read_collector(address) == address.rstrip("/")


@pytest.mark.parametrize(
    "address", ["collector:4318", "grpc://collector:4317", "https://a:b@otlp.example", "https://x/?k=1"]
)
def test_what_is_no_address_of_a_collector_is_refused(address):
    with pytest.raises(ValueError, match="is not an http:// or https:// address"):
        read_collector(address)


def test_headers_are_read_as_opentelemetry_writes_them():
    assert read_headers("api-key=a%20b, X-Scope=c=d") == {"api-key": "a b", "x-scope": "c=d"}
    with pytest.raises(ValueError, match="is not a list such as"):
        read_headers("api-key")


@pytest.mark.parametrize(("read", "address"), [(read_dsn, DSN), (read_collector, "http://collector:4318")])
@pytest.mark.parametrize("package", ["is_not_there", "is_not_there.nor_this"])
def test_an_address_without_the_packages_is_refused_with_what_to_install(package, read, address):
    with pytest.raises(ValueError, match=r"pip install --require-hashes -r requirements-telemetry\.txt"):
        with_package(package, read)(address)
    assert with_package("sentry_sdk", read)(address) == read(address)


def test_the_form_of_lines_is_one_of_two():
    problems = read_settings({**GOOD, "LOG_FORMAT": "xml"})["CONFIGURATION_PROBLEMS"]
    assert problems == ["LOG_FORMAT is none of plain, json."]
