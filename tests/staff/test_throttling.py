"""Guessing: after five wrong passwords or codes nothing more is accepted, whichever process is asked."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db.models import F

from staff.models import AuditEntry
from staff.sign_in.throttling import let_in
from tests.support.sign_in import PASSWORD, Browser, audited, code_of, make_user, text_of, wait_for_next_code
from tests.support.wire import ask


@pytest.fixture
def person(db):
    return make_user("Finance", authenticator=True)


def guess(browser, user, times):
    return [browser.enter_password(user, f"wrong {number}").status_code for number in range(times)]


def later(minutes):
    """Let time pass for what was counted."""
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=minutes))


def test_after_five_wrong_passwords_the_right_one_is_not_accepted_either(person):
    browser = Browser()
    assert guess(browser, person, 6) == [200, 200, 200, 200, 429, 429]

    answer = browser.enter_password(person)

    assert (answer.status_code, answer["Retry-After"]) == (429, "900")
    assert "Too many attempts were wrong" in answer.content.decode()
    assert audited(person) == ["person.sign_in_failed"] * 5 + ["person.locked_out"]


def test_four_wrong_passwords_are_forgiven_by_the_right_one(person, settings):
    browser = Browser()
    for _ in range(3):
        assert guess(browser, person, 4) == [200] * 4
        wait_for_next_code(person)
        browser.sign_in(person).post("/console/logout/")


def test_a_locked_out_name_is_let_in_from_elsewhere_and_after_fifteen_minutes(person):
    guess(Browser(), person, 6)
    assert Browser("203.0.113.77").enter_password(person).status_code == 302

    later(minutes=14)
    assert Browser().enter_password(person).status_code == 429
    later(minutes=2)
    assert Browser().enter_password(person).status_code == 302


def test_attempts_while_locked_out_do_not_make_it_longer(person):
    guess(Browser(), person, 5)
    later(minutes=14)
    guess(Browser(), person, 3)
    later(minutes=2)

    assert Browser().enter_password(person).status_code == 302


def test_twenty_wrong_passwords_for_many_names_lock_an_address_out(db, person):
    browser = Browser()
    for number in range(20):
        last = browser.enter_password(f"name-{number}", "wrong").status_code

    assert last == 429
    assert browser.enter_password(person).status_code == 429
    assert Browser("198.51.100.8").enter_password(person).status_code == 302


def test_the_addresses_of_one_ipv6_subscriber_count_as_one(person):
    answers = [
        Browser(f"2001:db8:1:2::{number:x}").enter_password(person, "wrong").status_code for number in range(1, 7)
    ]

    assert answers == [200, 200, 200, 200, 429, 429]
    assert Browser("2001:db8:1:3::1").enter_password(person).status_code == 302


def test_a_header_does_not_make_another_address(person):
    answers = [
        browser.client.post(
            "/console/login/",
            {"username": person.username, "password": "wrong"},
            headers={"X-Forwarded-For": f"203.0.113.{number}", "User-Agent": f"Browser {number}"},
        ).status_code
        for number, browser in enumerate([Browser()] * 6)
    ]

    assert answers == [200, 200, 200, 200, 429, 429]


def test_behind_a_proxy_the_address_that_it_saw_counts(person, settings):
    settings.TRUSTED_PROXIES = 1

    def enter(seen, entered):
        given = {"username": person.username, "password": entered}
        return (
            Browser("10.0.0.1")
            .client.post("/console/login/", given, headers={"X-Forwarded-For": f"192.0.2.200, {seen}"})
            .status_code
        )

    assert [enter("203.0.113.5", "wrong") for _ in range(6)][-1] == 429
    assert enter("203.0.113.6", PASSWORD) == 302


def test_wrong_codes_are_counted_with_wrong_passwords(person):
    guess(Browser(), person, 2)
    browser = Browser()
    browser.enter_password(person)

    assert [browser.enter_code("000000").status_code for _ in range(4)] == [200, 200, 429, 429]
    assert browser.enter_code(code_of(person)).status_code == 429
    assert not browser.is_in()


def test_wrong_codes_from_many_addresses_lock_the_codes_of_that_person(person):
    answers = []
    for number in range(11):
        browser = Browser(f"203.0.113.{number}")
        browser.enter_password(person)
        answers.append(browser.enter_code("000000").status_code)

    assert answers == [200] * 9 + [429, 429]
    AccessAttempt.objects.filter(user_agent="password").delete()
    browser = Browser("192.0.2.1")
    browser.enter_password(person)
    assert browser.enter_code(code_of(person)).status_code == 429


def test_guessing_at_a_confirmation_with_a_stolen_cookie_ends_like_guessing_at_sign_in(person):
    browser = Browser().sign_in(person)

    answers = [browser.post("/console/account/confirm/", proof=f"{number:06}").status_code for number in range(6)]

    assert answers == [302, 302, 302, 302, 429, 429]
    assert "is wrong" in text_of(browser.get("/console/account/confirm/"))


def test_guessing_the_present_password_in_order_to_change_it_is_counted(person):
    browser = Browser().sign_in(person)
    new = {"password1": "another fine password", "password2": "another fine password"}

    answers = [
        browser.post("/console/account/password/", oldpassword=f"guess {number}", **new).status_code
        for number in range(6)
    ]

    assert answers == [200, 200, 200, 200, 429, 429]
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_what_was_typed_as_a_name_is_not_kept_where_no_account_has_it(db):
    Browser().enter_password("my secret password", "x")

    entry = AuditEntry.objects.get(action="person.sign_in_failed")
    assert (entry.subject, entry.after) == ("unknown name", {"address": "198.51.100.7", "wrong": "password"})
    assert not AccessAttempt.objects.exclude(post_data="", get_data="").exists()


def test_who_was_let_in_may_try_again(person):
    guess(Browser(), person, 6)

    assert let_in(person.username) == 5
    assert Browser().enter_password(person).status_code == 302


def test_nobody_guesses_codes_for_ever_because_an_administrator_lets_them(person):
    for _ in range(2):
        browser = Browser()
        browser.enter_password(person)
        for _ in range(5):
            browser.enter_code("000000")
        let_in(person.username)

    assert AccessAttempt.objects.get(user_agent="code").failures_since_start == 5
    browser.enter_code(code_of(person))
    assert not browser.is_in()
    assert let_in(person.username, forgets_codes=True) == 5  # as the command does
    wait_for_next_code(person)
    assert Browser().sign_in(person).is_in()


def test_25_wrong_passwords_at_once_from_several_processes_count_one_by_one(committed, servers, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]  # as the servers have it
    user = User.objects.create(username="guessed-at", is_staff=True)
    user.set_password(PASSWORD)
    user.save()

    def attempt(number):
        url = servers.urls[number % len(servers.urls)]
        page = ask(url, b"GET /console/login/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        token = page.body.split(b'name="csrfmiddlewaretoken" value="')[1].split(b'"')[0].decode()
        form = urlencode({"csrfmiddlewaretoken": token, "username": "guessed-at", "password": f"wrong {number}"})
        lines = [
            "POST /console/login/ HTTP/1.1",
            "Host: localhost",
            f"Cookie: {page.headers['set-cookie'].split(';')[0]}",
        ]
        lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(form)}", "", form]
        return ask(url, "\r\n".join(lines).encode()).status

    try:
        with ThreadPoolExecutor(25) as browsers:
            answers = sorted(browsers.map(attempt, range(25)))
        assert answers == [200] * 4 + [429] * 21
        assert audited(user) == ["person.sign_in_failed"] * 5 + ["person.locked_out"]
    finally:
        let_in("guessed-at")
        user.delete()
