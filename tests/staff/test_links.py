"""One-time links: who sees what of them, what they open, and what ends when one is made."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.links import KIND, halves_for, make_link, make_link_of_two, send_link
from staff.models import AuditEntry, ChangeRequest
from staff.pages.first_password import FirstPassword
from staff.people import make_account
from staff.sign_in.links import AnyLinks, make_halves, make_whole
from tests.support.mail_server import MailServer
from tests.support.sign_in import PASSWORD, Browser, audited, make_user, text_of

STAFF, REQUESTS = "/console/auth/user/", "/console/staff/changerequest/"
SENDS = "Send a one-time link"


@pytest.fixture(autouse=True)
def four_eyes(db, settings):
    settings.FOUR_EYES = True


@pytest.fixture
def posted(settings):
    """Let e-mails be sent, into a list."""
    settings.CONSOLE_URL = "https://pay.example.com"
    return mail.outbox


@pytest.fixture
def ann():
    return make_user("Administrator")


@pytest.fixture
def bea():
    return make_user("Administrator")


@pytest.fixture
def nina():
    return make_user("Finance", email="nina@example.com")


def act(person, action, user):
    return (
        Browser()
        .sign_in(person)
        .client.post(STAFF, {"action": action, "index": "0", "_selected_action": [user.pk], "reason": "asked"})
    )


def ask_and_confirm(asker, confirmer, user):
    assert act(asker, "make_link", user).status_code == 302
    request = ChangeRequest.objects.get(kind=KIND, subject=user.username, state="waiting")
    answer = Browser().sign_in(confirmer).post(f"{REQUESTS}{request.pk}/decide/", confirm="yes")
    assert answer.status_code == 302
    request.refresh_from_db()
    return request


def secrets_on(person, request):
    page = Browser().sign_in(person).get(f"{REQUESTS}{request.pk}/change/")
    return re.findall(r'<code class="secret">([^<]*)</code>', page.content.decode())


def open_link(link, **given):
    """Open a link in a browser of its own; returns the answer to the form, or to the link."""
    browser = Browser("203.0.113.5")
    answer = browser.get(link.removeprefix("http://localhost").removeprefix("https://pay.example.com"))
    if answer.status_code != 302:
        return answer
    return browser.post(answer["Location"], new_password1=PASSWORD, new_password2=PASSWORD, **given)


# --- In two halves ----------------------------------------------------------------------------------------------------
def test_each_of_two_sees_one_half_of_a_link_and_nobody_else_any(ann, bea, nina):
    request = ask_and_confirm(ann, bea, nina)

    (code,), (link,) = secrets_on(ann, request), secrets_on(bea, request)
    assert re.fullmatch(r"[A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4}", code)
    assert link.startswith("http://localhost/console/login/password/")
    for other in (make_user("Administrator"), make_user("Auditor"), make_user(is_superuser=True)):
        assert secrets_on(other, request) == []


def test_both_halves_together_set_the_password_once(ann, bea, nina):
    request = ask_and_confirm(ann, bea, nina)
    (code,), (link,) = secrets_on(ann, request), secrets_on(bea, request)

    assert open_link(link, code=f" {code.lower().replace('-', ' ')} ")["Location"] == "/console/login/"

    assert Browser().sign_in(nina).is_in()
    assert secrets_on(ann, request) == secrets_on(bea, request) == []
    assert "used before" in text_of(open_link(link, code=code))


@pytest.mark.parametrize("code", ["", "AAAA-AAAA-AAAA", "é", "x" * 33])
def test_the_address_without_the_code_sets_no_password(ann, bea, nina, code):
    (link,) = secrets_on(bea, ask_and_confirm(ann, bea, nina))

    answer = open_link(link, code=code)

    assert answer.status_code == 200
    assert "This is not the code" in text_of(answer) or "required" in text_of(answer) or "at most" in text_of(answer)
    assert not User.objects.get(pk=nina.pk).has_usable_password()


def test_the_halves_of_two_links_do_not_fit(ann, bea, nina):
    first = ask_and_confirm(ann, bea, nina)
    (old_code,), (old_link,) = secrets_on(ann, first), secrets_on(bea, first)
    second = ask_and_confirm(bea, ann, nina)
    (code,), (link,) = secrets_on(bea, second), secrets_on(ann, second)

    assert secrets_on(ann, first) == secrets_on(bea, first) == []
    assert open_link(link, code=old_code).status_code == 200
    assert "used before" in text_of(open_link(old_link, code=code))
    assert open_link(link, code=code).status_code == 302


def test_what_opened_the_account_before_opens_it_no_more(ann, bea, nina):
    theirs = Browser().sign_in(nina)
    act(ann, "make_link", nina)
    assert theirs.is_in()
    ChangeRequest.objects.all().delete()
    request = ask_and_confirm(ann, bea, nina)

    assert not theirs.is_in()
    assert Browser().enter_password(nina).status_code == 200
    entry = AuditEntry.objects.get(action="person.link_made")
    assert (entry.author, entry.confirmed_by, entry.after) == (ann.username, bea.username, {"email": nina.email})
    (code,), (link,) = secrets_on(ann, request), secrets_on(bea, request)
    for row in (*AuditEntry.objects.all().values(), *ChangeRequest.objects.all().values()):
        assert code not in str(row)
        assert link.rsplit("/", 2)[1] not in str(row)


def test_halves_are_good_for_a_day_and_for_whom_is_active(ann, bea, nina):
    request = ask_and_confirm(ann, bea, nina)
    assert halves_for(bea.username, request)

    User.objects.filter(pk=nina.pk).update(is_active=False)
    assert halves_for(bea.username, request) is None
    User.objects.filter(pk=nina.pk).update(is_active=True)
    assert request.decided_at
    request.decided_at -= timedelta(hours=24, seconds=5)
    assert halves_for(bea.username, request) is None


@pytest.mark.parametrize("code", [{}, {"code": "AAAA-AAAA-AAAA"}])
def test_halves_that_expire_while_they_are_looked_at_set_no_password_without_the_code(
    ann, bea, nina, monkeypatch, code
):
    (link,) = secrets_on(bea, ask_and_confirm(ann, bea, nina))
    browser = Browser("203.0.113.5")
    form = browser.get(link.removeprefix("http://localhost"))["Location"]
    found_good, now = AnyLinks.check_token, PasswordResetTokenGenerator._now
    late = timedelta(0)

    def check_token(self, user, token):
        nonlocal late
        is_good = found_good(self, user, token)
        late = timedelta(hours=25)
        return is_good

    monkeypatch.setattr(AnyLinks, "check_token", check_token)
    monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda self: now(self) + late)
    answer = browser.post(form, new_password1=PASSWORD, new_password2=PASSWORD, **code)

    assert answer.status_code == 200
    assert 'name="code"' in answer.content.decode()
    assert not User.objects.get(pk=nina.pk).has_usable_password()


@pytest.mark.parametrize("kind", ["whole", "halves"])
def test_a_link_that_expires_after_its_form_was_right_sets_no_password(nina, monkeypatch, kind):
    now, done, halves = PasswordResetTokenGenerator._now, FirstPassword.form_valid, make_halves(nina, utc_now())
    assert halves
    path, given = (make_whole(nina), {}) if kind == "whole" else (halves.path, {"code": halves.code})
    browser = Browser("203.0.113.5")
    form, other = browser.get(path)["Location"], "another battery horse staple"

    def form_valid(self, form):
        monkeypatch.setattr(PasswordResetTokenGenerator, "_now", lambda generator: now(generator) + timedelta(hours=25))
        return done(self, form)

    monkeypatch.setattr(FirstPassword, "form_valid", form_valid)
    answer = browser.post(form, new_password1=other, new_password2=other, **given)

    assert "used before" in text_of(answer)
    assert not User.objects.get(pk=nina.pk).check_password(other)


def test_an_address_that_has_changed_since_it_was_shown_is_refused(ann, nina):
    with pytest.raises(OperationRefused, match="has changed meanwhile"):
        make_link_of_two(nina.username, email="other@example.com", by=ann.username)


# --- Sent -------------------------------------------------------------------------------------------------------------
def test_a_link_goes_to_the_address_of_the_account_and_is_shown_nowhere(ann, bea, nina, posted):
    theirs = Browser().sign_in(nina)
    answer = act(ann, "send_link", nina)

    (message,) = posted
    (link,) = re.findall(r"https://\S*", message.body)
    assert message.to == ["nina@example.com"]
    assert link.startswith("https://pay.example.com/console/login/password/")
    secret = link.rsplit("/", 2)[1]
    desk = Browser().sign_in(ann)
    for page in (
        answer,
        desk.get(STAFF),
        desk.get(f"{STAFF}{nina.pk}/change/"),
        desk.get("/console/staff/auditentry/"),
    ):
        assert secret not in page.content.decode()
    assert secret not in str(list(AuditEntry.objects.values()))
    assert not theirs.is_in()
    assert not User.objects.get(pk=nina.pk).has_usable_password()
    assert open_link(link).status_code == 302
    assert Browser().sign_in(nina).is_in()
    assert audited(nina)[-3:] == ["person.link_sent", "person.password_set", "person.signed_in"]


def test_the_host_that_a_request_names_is_not_in_the_link(ann, nina, posted, settings):
    settings.ALLOWED_HOSTS = ["*"]
    browser = Browser().sign_in(ann)
    form = {"action": "send_link", "index": "0", "_selected_action": [nina.pk], "reason": "asked"}
    browser.client.post(STAFF, form, headers={"host": "evil.example"})

    assert len(posted) == 1
    assert "evil.example" not in posted[0].body


def test_no_link_is_sent_to_an_address_that_one_person_alone_has_given(ann, bea, posted):
    make_account("puppet", name="P", email="mine@example.com", roles=["Finance"], by=ann.username)

    for person in (ann, bea):
        with pytest.raises(OperationRefused, match="One person alone has given puppet this e-mail address"):
            send_link("puppet", by=person.username)
    assert posted == []


def test_without_a_mail_server_that_takes_it_nothing_is_done(ann, nina, settings):
    settings.CONSOLE_URL = "https://pay.example.com"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.DEFAULT_FROM_EMAIL = "127.0.0.1", "allowance@example.com"
    with MailServer("nina@example.com") as server:
        settings.EMAIL_PORT = server.port
        with pytest.raises(OperationRefused, match="Nothing was done: the mail server did not take the e-mail"):
            send_link(nina.username, by=ann.username)
        assert (server.mails, audited(nina)) == ([], [])
        assert Browser().sign_in(nina).is_in()
        server.refused.clear()
        send_link(nina.username, by=ann.username)
    assert server.recipients == [["nina@example.com"]]


@pytest.mark.parametrize("missing", ["CONSOLE_URL", "EMAIL_URL", "address"])
def test_where_nothing_can_be_sent_that_is_said(ann, nina, posted, settings, missing):
    if missing == "CONSOLE_URL":
        settings.CONSOLE_URL = ""
    elif missing == "EMAIL_URL":
        settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    else:
        User.objects.filter(pk=nina.pk).update(email="")

    with pytest.raises(OperationRefused, match=r"No link can be sent|has no e-mail address"):
        send_link(nina.username, by=ann.username)
    page = text_of(Browser().sign_in(ann).get(f"{STAFF}{nina.pk}/change/"))
    assert (SENDS in page) == (missing == "address")


# --- Whole ------------------------------------------------------------------------------------------------------------
def test_who_never_had_a_colleague_sees_a_whole_link_and_it_says_what_follows(ann, nina):
    page = Browser().sign_in(ann).post(STAFF, action="make_link", index="0", _selected_action=nina.pk)
    assert "it is in your hand from then on" in text_of(page)

    answer = act(ann, "make_link", nina)
    (link,) = re.findall(r'<code class="secret">([^<]*)</code>', answer.content.decode())

    assert open_link(link).status_code == 302
    page = text_of(Browser().sign_in(ann).get(f"{STAFF}{nina.pk}/change/"))
    assert f"{ann.username}, who could use this account" in page


def test_a_whole_link_is_made_for_nobody_who_has_or_had_a_colleague(ann, bea, nina):
    with pytest.raises(OperationRefused, match="takes a second person"):
        make_link(nina.username, by=ann.username)
    User.objects.filter(pk=bea.pk).update(is_active=False)
    with pytest.raises(OperationRefused, match="takes a second person"):
        make_link(nina.username, by=ann.username)
    assert audited(nina) == []
