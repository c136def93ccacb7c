"""What is begun with an account and finished only after something has ended all that was begun with it: nothing is."""

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User

from staff import people
from staff.accounts import record_change
from staff.hands import LINK
from staff.links import make_link_of_two, send_link
from staff.models import ChangeRequest
from staff.pages.account import ChangePassword
from staff.pages.first_password import FirstPassword
from staff.sign_in.links import make_whole
from tests.staff.test_taking_over import act, decide, make, waiting
from tests.support.sign_in import PASSWORD, Browser, audited, code_of, make_user, text_of, wait_for_next_code

CHANGED = "Your account has changed since you entered your password. Sign in again."
NEW = "another battery horse staple"
ADMINISTRATOR = "boss"


@pytest.fixture(autouse=True)
def four_eyes(db, settings):
    settings.FOUR_EYES, settings.CONSOLE_URL = True, "https://pay.example.com"


@pytest.fixture
def person():
    return make_user("Finance", authenticator=True, email="person@example.com")


def begin(user):
    """Enter the password; the code waits."""
    browser = Browser()
    assert browser.enter_password(user)["Location"] == "/console/login/code/"
    return browser


def finish(browser, user):
    wait_for_next_code(user)
    return browser.enter_code(code_of(user))


# --- A login that waits for its code ----------------------------------------------------------------------------------
def sent(user):
    send_link(user.username, by=ADMINISTRATOR)


def made_in_halves(user):
    make_link_of_two(user.username, email=user.email, by=ADMINISTRATOR)


def password_changed(user):
    theirs = Browser().sign_in(user)
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}
    assert theirs.post("/console/account/password/", **form).status_code == 302


def second_factor_reset_and_set_up_anew(user):
    people.reset_second_factor(user.username, by=ADMINISTRATOR)
    TOTP.activate(user, generate_totp_secret())


def authenticator_replaced(user):
    assert Browser().sign_in(user).post("/console/account/authenticator/replace/").status_code == 302
    TOTP.activate(user, generate_totp_secret())


def deactivated(user):
    people.deactivate(user.username, by=ADMINISTRATOR)


def deactivated_and_activated(user):
    deactivated(user)
    people.activate(user.username, by=ADMINISTRATOR)


def sessions_ended(user):
    Browser().sign_in(user)
    people.end_sessions(user.username, by=ADMINISTRATOR)


@pytest.mark.parametrize(
    "end",
    [
        sent, made_in_halves, password_changed, second_factor_reset_and_set_up_anew, authenticator_replaced,
        deactivated, deactivated_and_activated, sessions_ended,
    ],
)  # fmt: skip
def test_a_login_that_waits_for_its_code_outlasts_nothing_that_ends_sessions(person, end):
    make_user("Administrator", username=ADMINISTRATOR)
    browser = begin(person)

    end(person)
    answer = finish(browser, person)

    assert (answer.status_code, answer["Location"]) == (302, "/console/login/")
    assert CHANGED in text_of(browser.get("/console/login/"))
    User.objects.filter(pk=person.pk).update(is_active=True)
    assert not browser.is_in()
    # The code that was right then is worth nothing later, either.
    person.set_password(PASSWORD), person.save()
    assert browser.enter_password(person)["Location"] == "/console/login/code/"
    assert not browser.is_in()


def test_a_login_waits_for_its_code_while_others_fail_at_the_account_and_sessions_of_others_end(person):
    other = make_user("Finance")
    browser, stranger = begin(person), Browser("203.0.113.9")

    stranger.enter_password(person, "wrong")
    Browser().sign_in(other), people.end_sessions(other.username, by=ADMINISTRATOR)
    browser.enter_code("000000")

    assert finish(browser, person)["Location"] == "/console/"
    assert browser.is_in()


# --- One Administrator who would be two -------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["sent", "halves"])
def test_logins_begun_before_their_links_make_nobody_two_people(way, settings):
    settings.TOTP_REQUIRED = True
    User.objects.update(is_active=False, is_superuser=False)
    mallory, hana = (make_user("Administrator", authenticator=True, email=f"{n}@example.com") for n in ("m", "h"))
    accounts = [make_user("Administrator", authenticator=True, email=f"{name}@example.com") for name in ("f1", "f2")]
    for account in accounts:
        record_change(LINK.removeprefix("person."), account, mallory.username, "made when she was alone")
    desk, theirs = Browser().sign_in(mallory), Browser().sign_in(hana)
    begun = [begin(account) for account in accounts]

    for account in accounts:
        act(desk, "send_link" if way == "sent" else "make_link", account)
    for request in waiting():
        decide(theirs, request)
    assert not any(User.objects.get(pk=account.pk).has_usable_password() for account in accounts)
    for browser, account in zip(begun, accounts, strict=True):
        finish(browser, account)

    assert not any(browser.is_in() for browser in begun)
    assert all("person.signed_in" not in audited(account) for account in accounts)
    make(begun[0], "puppet")
    assert not ChangeRequest.objects.filter(asked_by=accounts[0].username).exists()


# --- A password that is being set -------------------------------------------------------------------------------------
def meanwhile(monkeypatch, view, what, *given):
    """Let something happen after a form was found to be right, and before it is done."""
    done = view.form_valid

    def form_valid(self, form):
        what(*given)
        return done(self, form)

    monkeypatch.setattr(view, "form_valid", form_valid)


@pytest.mark.parametrize("end", [sent, made_in_halves, deactivated])
def test_a_link_that_is_being_used_sets_no_password_once_the_account_is_renewed_or_let_in_no_longer(
    person, monkeypatch, end
):
    make_user("Administrator", username=ADMINISTRATOR)
    browser = Browser()
    led = browser.get(make_whole(person))
    meanwhile(monkeypatch, FirstPassword, end, person)

    answer = browser.post(led["Location"], new_password1=NEW, new_password2=NEW)

    assert "used before" in text_of(answer)
    renewed = User.objects.get(pk=person.pk)
    assert not renewed.check_password(NEW)
    assert renewed.is_active == (end is not deactivated)
    assert "person.password_set" not in audited(person)


@pytest.mark.parametrize("end", [sent, made_in_halves, deactivated])
def test_a_password_that_is_being_changed_stays_as_it_became_meanwhile(person, monkeypatch, end):
    make_user("Administrator", username=ADMINISTRATOR)
    browser = Browser().sign_in(person)
    meanwhile(monkeypatch, ChangePassword, end, person)

    answer = browser.post("/console/account/password/", oldpassword=PASSWORD, password1=NEW, password2=NEW)

    assert (answer.status_code, answer["Location"]) == (302, "/console/login/")
    assert "and your password has not" in text_of(browser.get("/console/login/"))
    renewed = User.objects.get(pk=person.pk)
    assert not renewed.check_password(NEW)
    assert renewed.is_active == (end is not deactivated)
    assert "person.password_changed" not in audited(person)
    assert not browser.is_in()
