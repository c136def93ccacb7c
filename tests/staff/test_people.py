"""What Administrators do with accounts: make them, give roles, reset, deactivate, let in again."""

import re

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from staff import people
from staff.independence import administrators
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm
from tests.support.factories import new_name
from tests.support.sign_in import PASSWORD, Browser, audited, find, make_user, text_of
from tests.support.steps import follow_step

STAFF = "/console/auth/user/"
NEW = {"username": "ben", "name": "Ben Ode", "email": "ben@example.com", "roles": ["Finance"], "reason": "joins"}


@pytest.fixture
def admin(db):
    return make_user("Administrator")


@pytest.fixture
def desk(admin):
    """The Administrator's browser."""
    return Browser().sign_in(admin)


def act(browser, action, user, **given):
    form = {"action": action, "index": "0", "_selected_action": [user.pk], "reason": "asked", **given}
    return browser.client.post(STAFF, form)


def roles(user):
    return people.roles_of(User.objects.get(pk=user.pk))


def test_an_account_is_made_and_its_owner_sets_the_password_by_a_link_that_works_once(desk, admin):
    assert desk.client.post(f"{STAFF}add/", NEW).status_code == 302
    ben = User.objects.get(username="ben")
    assert (roles(ben), ben.is_staff, ben.has_usable_password()) == (["Finance"], True, False)

    link = find(r'<code class="secret">http://localhost(/[^<]*)</code>', act(desk, "make_link", ben))
    owner = Browser("203.0.113.5")
    form = owner.get(link)["Location"]
    assert "Choose a password" in text_of(owner.get(form))
    assert owner.post(form, new_password1=PASSWORD, new_password2=PASSWORD)["Location"] == "/console/login/"
    assert owner.sign_in(ben).is_in()
    assert "used before" in text_of(Browser().get(link))
    assert audited(ben) == ["person.made", "person.link_made", "person.password_set", "person.signed_in"]
    assert AuditEntry.objects.get(action="person.made").author == admin.username


def test_a_link_is_of_no_use_for_a_deactivated_account(desk):
    user = make_user()
    link = find(r'<code class="secret">http://localhost(/[^<]*)</code>', act(desk, "make_link", user))
    act(desk, "deactivate", user)

    assert "too old" in text_of(Browser().get(link))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"username": "a b"}, "Enter a valid username"),
        ({"username": "TAKEN"}, "There is an account TAKEN already"),
        ({"email": "Taken@Example.com"}, "an account with the address"),
        ({"email": "nothing"}, "Enter a valid email"),
        ({"email": "nina@ex\u0430mple.com"}, "ASCII letters alone"),
        ({"roles": ["Emperor"]}, "Emperor is not one of the available choices"),
        ({"roles": []}, "This field is required"),
        ({"reason": ""}, "This field is required"),
    ],
)
def test_what_is_wrong_with_a_new_account_is_said(desk, given, said):
    make_user(username="taken", email="taken@example.com")
    count = User.objects.count()

    page = follow_step(desk.client, desk.client.post(f"{STAFF}add/", {**NEW, **given}))

    assert (page.status_code, User.objects.count()) == (200, count)
    assert said in text_of(page) or said in text_of(desk.get(STAFF))


def test_roles_are_changed_as_shown(desk, admin):
    user = make_user("Finance")

    act(desk, "change_roles", user, roles=["Operations", "Auditor"], before=["Finance"])
    assert roles(user) == ["Auditor", "Operations"]
    act(desk, "change_roles", user, roles=["Finance"], before=["Finance"])
    assert roles(user) == ["Auditor", "Operations"]

    entry = AuditEntry.objects.get(action="person.roles_changed")
    assert (entry.author, entry.before, entry.after, entry.reason) == (
        admin.username, {"roles": ["Finance"]}, {"roles": ["Auditor", "Operations"]}, "asked")  # fmt: skip


def test_who_is_deactivated_is_signed_out_and_can_be_activated_again(desk):
    user = make_user("Finance")
    theirs = Browser().sign_in(user)

    act(desk, "deactivate", user)
    assert not theirs.is_in()
    assert Browser().enter_password(user).status_code == 200
    act(desk, "activate", user)
    assert Browser().sign_in(user).is_in()
    assert [action for action in audited(user) if "activated" in action] == ["person.deactivated", "person.activated"]


def test_a_second_factor_is_reset(desk):
    user = make_user("Finance", authenticator=True)
    theirs = Browser().sign_in(user)

    act(desk, "reset_second_factor", user)

    assert not Authenticator.objects.filter(user=user).exists()
    assert not theirs.is_in()


def test_who_is_locked_out_is_let_in_again(desk):
    user = make_user()
    stranger = Browser("203.0.113.44")
    for _ in range(5):
        stranger.enter_password(user, "wrong")
    assert stranger.enter_password(user).status_code == 429

    act(desk, "let_in", user)
    assert stranger.sign_in(user).is_in()


def test_nobody_lets_somebody_in_so_often_that_passwords_can_be_guessed(desk):
    user = make_user()
    for _ in range(5):
        Browser("203.0.113.44").enter_password(user, "wrong")
    act(desk, "let_in", user)
    for _ in range(5):
        Browser("203.0.113.44").enter_password(user, "wrong")

    act(desk, "let_in", user)
    assert "was let in already within the last 15 minutes" in text_of(desk.get(STAFF))
    assert Browser("203.0.113.44").enter_password(user).status_code == 429
    people.let_in(user.username, by="command line")
    assert Browser("203.0.113.44").sign_in(user).is_in()


def test_sessions_of_others_are_ended(desk):
    user = make_user()
    theirs = Browser().sign_in(user)

    act(desk, "end_sessions", user)

    assert not theirs.is_in()
    assert audited(user)[-1] == "person.session_ended"


ALL = (
    "change_roles",
    "send_link",
    "make_link",
    "reset_second_factor",
    "let_in",
    "end_sessions",
    "deactivate",
    "activate",
)


@pytest.mark.parametrize("action", ALL)
def test_nobody_changes_their_own_account(desk, admin, action):
    before = (roles(admin), admin.is_active, AuditEntry.objects.count())

    act(desk, action, admin, roles=["Finance", "Administrator"], before=["Administrator"])

    admin.refresh_from_db()
    assert (roles(admin), admin.is_active, AuditEntry.objects.count()) == before
    assert "This is your own account" in text_of(desk.get(STAFF))


@pytest.mark.parametrize("action", ALL)
def test_an_administrator_who_is_no_superuser_does_not_touch_a_superuser(desk, action):
    root = make_user(is_superuser=True, authenticator=True)
    act(desk, action, root, roles=["Finance"], before=[])

    root.refresh_from_db()
    assert (roles(root), root.is_active, Authenticator.objects.filter(user=root).count()) == ([], True, 2)
    assert audited(root) == []


@pytest.mark.parametrize("role", ["Finance", "Operations", "Auditor"])
@pytest.mark.parametrize("action", ALL)
def test_nobody_else_does_any_of_this_by_a_request_made_by_hand(db, role, action):
    browser, other = Browser().sign_in(make_user(role)), make_user("Finance")

    answer = act(browser, action, other, roles=["Administrator"], before=["Finance"])

    assert answer.status_code == 403
    assert (roles(other), audited(other)) == (["Finance"], [])


@pytest.mark.parametrize("role", ["Finance", "Operations", "Auditor"])
def test_nobody_else_makes_an_account(db, role):
    browser = Browser().sign_in(make_user(role))

    assert browser.client.post(f"{STAFF}add/", NEW).status_code == 403
    assert not User.objects.filter(username="ben").exists()


@pytest.mark.parametrize("page", ["add/", "1/change/", "1/delete/", "1/password/"])
def test_the_forms_of_djangos_own_pages_change_nothing(desk, page):
    user = make_user()
    fields = {
        "username": new_name("x"),
        "is_superuser": "on",
        "password1": PASSWORD,
        "password2": PASSWORD,
        "post": "yes",
    }

    desk.client.post(STAFF + page.replace("1", str(user.pk)), fields)

    user.refresh_from_db()
    assert (user.is_superuser, user.check_password(PASSWORD)) == (False, True)
    assert not User.objects.filter(is_superuser=True).exists()


def test_the_last_administrator_remains(admin):
    User.objects.exclude(pk=admin.pk).update(is_active=False)
    for change in (
        lambda: people.deactivate(admin.username, by="command line"),
        lambda: people.change_roles(admin.username, roles=[], before=["Administrator"], by="command line"),
    ):
        with pytest.raises(OperationRefused, match="no active Administrator"):
            change()

    admin.refresh_from_db()
    assert (admin.is_active, roles(admin)) == (True, ["Administrator"])


@pytest.fixture
def four_eyes(settings):
    settings.FOUR_EYES = True


@pytest.mark.usefixtures("four_eyes")
@pytest.mark.parametrize("action", ["change_roles", "reset_second_factor"])
def test_with_a_second_administrator_both_are_needed(desk, admin, action):
    other, user = make_user("Administrator"), make_user("Finance", authenticator=True)

    act(desk, action, user, roles=["Operations"], before=["Finance"])
    request = ChangeRequest.objects.get()
    assert (request.kind, request.subject, roles(user)) == ("staff.change", user.username, ["Finance"])
    assert Authenticator.objects.filter(user=user).exists()
    for nobody in (admin, make_user("Finance"), make_user("Auditor")):
        with pytest.raises(OperationRefused):
            confirm(request.pk, by=User.objects.get(pk=nobody.pk))
    confirm(request.pk, by=User.objects.get(pk=other.pk))

    entry = AuditEntry.objects.filter(subject=user.username, subject_type="person").first()
    assert entry
    assert (entry.author, entry.confirmed_by) == (admin.username, other.username)


@pytest.mark.usefixtures("four_eyes")
def test_making_an_account_waits_for_the_second_administrator(desk):
    other = make_user("Administrator")
    desk.client.post(f"{STAFF}add/", NEW)
    assert not User.objects.filter(username="ben").exists()

    confirm(ChangeRequest.objects.get().pk, by=User.objects.get(pk=other.pk))

    assert roles(User.objects.get(username="ben")) == ["Finance"]


@pytest.mark.usefixtures("four_eyes")
def test_an_administrator_who_is_alone_acts_alone(desk):
    user = make_user("Finance")
    act(desk, "change_roles", user, roles=["Auditor"], before=["Finance"])

    assert roles(user) == ["Auditor"]


def test_no_page_of_others_shows_secrets_of_factors_or_sessions(db):
    browser = Browser().sign_in(make_user(is_superuser=True))

    models = ["mfa/authenticator", "usersessions/usersession", "account/emailaddress", "auth/group", "sessions/session",
              "socialaccount/socialaccount", "socialaccount/socialapp", "socialaccount/socialtoken",
              "axes/accessattempt"]  # fmt: skip
    assert {browser.get(f"/console/{model}/").status_code for model in models} == {404}


def test_a_superuser_made_by_command_is_an_administrator_and_everything_else(db, django_user_model):
    root = django_user_model.objects.create_superuser("root", "root@example.com", PASSWORD)

    assert root in administrators()
    assert Browser().sign_in(root).get(f"{STAFF}add/").status_code == 200
    assert not re.search("Traceback", text_of(Browser().sign_in(root).get(STAFF)))
