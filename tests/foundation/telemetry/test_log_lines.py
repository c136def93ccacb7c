"""A log line: what it has, in both forms, and what it never has."""

import json
import logging
import sys
import threading

import pytest

from foundation.kernel.version import VERSION
from foundation.telemetry import known_secrets
from foundation.telemetry.context import current_ids, note, resume, working_on
from foundation.telemetry.log_lines import JsonLine, PlainLine, make_formatter, make_formatter_of_server

PASSWORD = 'pa"ss\nword-of-the-database'
API_KEY = f"alw_{'a' * 38}"


def record(message="Payment %s was made", *arguments, error=None, **extra):
    made = logging.getLogger("payments.test").makeRecord(
        "payments.test", logging.WARNING, __file__, 1, message, arguments, error, extra=extra
    )
    made.created = 1_800_000_000.25
    return made


def failure(message):
    def fail():
        raise RuntimeError(message)

    try:
        fail()
    except RuntimeError:
        return sys.exc_info()


def as_json(made):
    line = JsonLine("worker").format(made)
    assert "\n" not in line
    return json.loads(line)


@pytest.fixture
def _known(monkeypatch):
    monkeypatch.setattr(known_secrets, "_known", ())
    known_secrets.know(
        [
            "postgres://allowance:pa%22ss%0Aword-of-the-database@db.example/allowance_main",
            "https://user:node-password@node.example/v2/node-key,https://other.example/?apikey=other-node-key",
            "0x" + "AB" * 32,
            "short",
        ]
    )


def test_a_json_line_says_when_who_and_what():
    assert as_json(record("Payment %s was made", "pay_1")) == {
        "time": "2027-01-15T08:00:00.250000+00:00",
        "level": "WARNING",
        "logger": "payments.test",
        "message": "Payment pay_1 was made",
        "process": "worker",
        "pid": record().process,
        "version": VERSION,
    }


def test_a_line_has_the_ids_of_what_is_being_worked_on_and_its_own_first():
    with working_on(requestId="req_1", agentId=None, paymentId="pay_1"):
        note(agentId="agent")
        line = as_json(record("hello", paymentId="pay_2"))
        plain = PlainLine().format(record("hello"))
    assert (line["requestId"], line["agentId"], line["paymentId"]) == ("req_1", "agent", "pay_2")
    assert plain.endswith("WARNING payments.test: hello [requestId=req_1 agentId=agent paymentId=pay_1]")
    assert current_ids() == {}
    assert PlainLine().format(record("hello")).endswith(": hello")


def test_an_id_that_a_caller_chose_begins_no_line():
    with working_on(agentId="a\n2026 ERROR forged", service="s\x1b[2J"):
        line = PlainLine().format(record("hello"))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_what_was_resumed_elsewhere_has_its_own_ids_alone():
    with working_on(requestId="req_of_the_leader", keyId="key"), resume({"requestId": "req_1"}):
        assert dict(current_ids()) == {"requestId": "req_1"}


def test_each_thread_works_on_something_of_its_own():
    seen = []
    with working_on(requestId="req_1"):
        thread = threading.Thread(target=lambda: seen.append(dict(current_ids())))
        thread.start()
        thread.join()
    assert seen == [{}]


def test_what_libraries_add_to_a_record_is_left_out():
    assert "data" not in as_json(record("hello", data={"args": "anything"}, request=object()))


def test_a_traceback_is_one_member_and_below_the_line_for_people():
    error = failure("no\nnumber")
    line = as_json(record("It failed\nhere", error=error))
    assert line["message"] == "It failed\nhere"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("RuntimeError: no\nnumber")
    assert PlainLine().format(record("It failed", error=error)).splitlines()[-2:] == ["RuntimeError: no", "number"]


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize("form", ["json", "plain"])
@pytest.mark.parametrize(
    "secret",
    [PASSWORD, "pa%22ss%0Aword-of-the-database", "node-password", "v2/node-key", "other-node-key", "AB" * 32, "ab" * 32,
     API_KEY, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
)  # fmt: skip
def test_a_secret_that_a_library_names_is_hidden(form, secret):
    error = failure(f"cannot use {secret} there")
    line = make_formatter(form, "web").format(record("Failed with %s, too", secret, error=error))
    assert line.count("********") == 2
    assert secret not in line
    assert json.dumps(secret)[1:-1] not in line


@pytest.mark.usefixtures("_known")
def test_what_is_no_secret_stays():
    text = "db.example allowance_main user allowance short node.example /console/login/password/"
    assert as_json(record(text))["message"] == text
    assert as_json(record("/console/login/password/MQ/abc-def/"))["message"] == "/console/login/password/********"


def test_the_servers_own_process_writes_the_same_lines(monkeypatch):
    monkeypatch.setenv("LOG_FORMAT", "JSON")
    assert isinstance(make_formatter_of_server(), JsonLine)
    monkeypatch.delenv("LOG_FORMAT")
    assert isinstance(make_formatter_of_server(), PlainLine)


@pytest.mark.parametrize(
    "address",
    [
        "postgres://user:pass-word@db.example/name",
        "POSTGRES://user:pass-word@db.example/name",
        "postgres://user:pass,word-of-ours@db.example/name",
        "rediss+sentinel://:pass-word@a.example:1,b.example:2/mymaster",
    ],
)
def test_a_password_is_hidden_whole_in_whatever_form_the_address_is(monkeypatch, address):
    monkeypatch.setattr(known_secrets, "_known", ())
    known_secrets.know([address])
    password = address.rpartition("@")[0].rpartition(":")[2]

    assert known_secrets.hide(f"refused {password} of mymaster") == "refused ******** of mymaster"


def test_what_others_wrote_commands_no_terminal_in_a_line():
    assert known_secrets.hide_in_line("busy\x1b[2J\r\n\x9b0m now") == "busy [2J 0m now"


def test_nobody_writes_a_line_of_their_own_or_commands_a_terminal():
    said = record("Nobody is called %s", "a\n2026-11-23 CRITICAL forged\x1b[2J\x9b2J\u2028", error=failure("\x1b[2J"))

    line, *below = PlainLine().format(said).split("\n")
    assert line.endswith(r"called a\n2026-11-23 CRITICAL forged\x1b[2J\x9b2J\u2028")
    assert below[-1] == r"RuntimeError: \x1b[2J"
