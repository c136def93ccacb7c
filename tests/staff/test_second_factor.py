"""Setting up a second factor, and what there is without one."""

from urllib.parse import unquote

import pytest
from allauth.mfa.models import Authenticator
from django.test import override_settings

from staff.sign_in.adapters import SecondFactorAdapter
from tests.support.factories import make_service
from tests.support.sign_in import (
    Browser,
    audited,
    code,
    code_of,
    find,
    make_user,
    recovery_codes_of,
    text_of,
    wait_for_next_code,
)

SET_UP = "/console/account/authenticator/"


@pytest.fixture(autouse=True)
def totp_required(settings):
    settings.TOTP_REQUIRED = True


@pytest.fixture
def newcomer(db):
    return make_user("Finance")


def key_on(page):
    return find(r'<code class="secret">([A-Z2-7]+)</code>', page)


def test_without_a_second_factor_there_is_only_the_page_that_sets_one_up(newcomer):
    browser = Browser()
    browser.enter_password(newcomer)
    service = make_service(approved=False)

    pages = ["/console/", "/console/services/service/", "/console/account/recovery-codes/", "/console/nothing/"]
    forms = {"action": "reject", "_selected_action": service.id, "reason": "none"}
    answers = [browser.get(page) for page in pages] + [browser.post("/console/services/service/", **forms)]

    assert {(answer.status_code, answer["Location"]) for answer in answers} == {(302, SET_UP)}
    service.refresh_from_db()
    assert service.status == "pending_approval"


def test_somebody_sets_up_an_authenticator_and_sees_recovery_codes_once(newcomer):
    browser = Browser()
    browser.enter_password(newcomer)
    page = browser.get(SET_UP)
    answer = browser.post(SET_UP, code=code(key_on(page)))

    assert (answer.status_code, answer["Location"]) == (302, "/console/account/recovery-codes/")
    first, again = (browser.get("/console/account/recovery-codes/") for _ in range(2))
    assert all(code in text_of(first) and code not in text_of(again) for code in recovery_codes_of(newcomer))
    assert browser.is_in()
    assert audited(newcomer) == ["person.signed_in", "person.second_factor_set_up"]
    file = find(r'download="recovery-codes.txt" href="data:text/plain;charset=utf-8,([^"]*)"', first)
    assert unquote(file).split() == recovery_codes_of(newcomer)
    assert 'data-copy="#codes"' in first.content.decode()


def test_the_picture_of_the_key_needs_no_style_and_no_script(newcomer):
    browser = Browser()
    browser.enter_password(newcomer)
    page = browser.get(SET_UP)
    picture = find(r'(<svg[^>]*class="qr".*?</svg>)', page)

    assert "style" not in picture
    assert "data:" not in picture


def test_the_code_that_set_it_up_does_not_sign_in(newcomer):
    browser, thief = Browser(), Browser()
    browser.enter_password(newcomer)
    seen = code(key_on(browser.get(SET_UP)))
    browser.post(SET_UP, code=seen)

    thief.enter_password(newcomer)
    assert thief.enter_code(seen).status_code == 200
    assert not thief.is_in()


def test_a_wrong_first_code_sets_nothing_up(newcomer):
    browser = Browser()
    browser.enter_password(newcomer)
    right = code(key_on(browser.get(SET_UP)))

    answer = browser.post(SET_UP, code=f"{(int(right) + 1) % 10**6:06}")

    assert answer.status_code == 200
    assert not Authenticator.objects.filter(user=newcomer).exists()


def test_another_session_of_the_same_person_has_to_show_the_new_factor(newcomer):
    one, other = Browser(), Browser()
    one.enter_password(newcomer), other.enter_password(newcomer)
    one.post(SET_UP, code=code(key_on(one.get(SET_UP))))

    led = other.get("/console/")
    assert led["Location"] == "/console/account/confirm/?next=%2Fconsole%2F"
    wait_for_next_code(newcomer)
    assert other.post(led["Location"], proof=code_of(newcomer))["Location"] == "/console/"
    assert other.is_in()


def test_a_factor_that_one_person_showed_does_not_count_for_another(db):
    first, second = make_user(authenticator=True), make_user()
    browser = Browser().sign_in(first)
    browser.client.force_login(second)

    assert browser.get("/console/")["Location"] == SET_UP


def test_the_key_of_an_authenticator_is_encrypted_at_rest(newcomer):
    browser = Browser()
    browser.enter_password(newcomer)
    key = key_on(browser.get(SET_UP))
    browser.post(SET_UP, code=code(key))

    rows = str(list(Authenticator.objects.filter(user=newcomer).values_list("data", flat=True)))
    assert key not in rows
    assert not any(code in rows for code in recovery_codes_of(newcomer))


def test_an_earlier_secret_key_still_opens_what_it_closed_and_the_next_code_renews_it(db, settings):
    person = make_user(authenticator=True)
    before = Authenticator.objects.get(user=person, type="totp").data["secret"]
    with override_settings(SECRET_KEY="a newer one", SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        browser = Browser()
        browser.enter_password(person)
        assert browser.enter_code(code_of(person)).status_code == 302
        after = Authenticator.objects.get(user=person, type="totp").data["secret"]
    with override_settings(SECRET_KEY="a newer one", SECRET_KEY_FALLBACKS=[]):
        assert SecondFactorAdapter().decrypt(after)
    assert before != after


def test_replacing_an_authenticator_takes_a_code_and_leads_to_the_next(db):
    person = make_user("Finance", authenticator=True)
    browser = Browser().sign_in(person)
    session = browser.client.session
    session["proved_at"] = 0
    session.save()

    page = browser.get("/console/account/authenticator/replace/")
    assert page["Location"].startswith("/console/account/confirm/?next=")
    wait_for_next_code(person)
    browser.post(page["Location"], proof=code_of(person))
    assert browser.post("/console/account/authenticator/replace/")["Location"] == SET_UP
    assert browser.get("/console/")["Location"] == SET_UP
    assert audited(person)[-1] == "person.second_factor_taken_down"


def test_replacing_an_authenticator_ends_the_sessions_that_it_opened(db):
    person = make_user("Finance", authenticator=True)
    here, there = Browser().sign_in(person), Browser("203.0.113.9").sign_in(person)

    here.post("/console/account/authenticator/replace/")
    here.post(SET_UP, code=code(key_on(here.get(SET_UP))))

    assert (here.is_in(), there.is_in()) == (True, False)
