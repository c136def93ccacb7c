"""Sign-in with a provider of OpenID Connect, against a real one on this machine."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from django.contrib.auth.models import User

from foundation.environment.configuration import Configuration
from foundation.environment.single_sign_on import provider_settings, read_issuer, read_provider
from staff.models import AuditEntry
from tests.support.oidc_provider import CLIENT, SECRET, running_provider
from tests.support.sign_in import Browser, audited, code_of, make_user, text_of, wait_for_next_code

BEGIN = "/console/login/sso/"
ANN = "ann@example.com"
AUTHENTICATOR = "/console/account/authenticator/"


@pytest.fixture
def provider(settings):
    with running_provider() as running:
        settings.OIDC_ISSUER = running.url
        settings.SOCIALACCOUNT_PROVIDERS = provider_settings(running.url, CLIENT, SECRET)
        settings.TOTP_REQUIRED = True
        yield running


@pytest.fixture
def ann(db):
    return make_user("Finance", email="Ann@Example.com", authenticator=True)


def at_the_provider(browser, query=""):
    """Go to the provider and let it lead back; return the address behind that."""
    gone = browser.get(BEGIN + query)
    assert gone.status_code == 302, gone.content
    return requests.get(gone["Location"], allow_redirects=False, timeout=10).headers["Location"]


def come(browser, query=""):
    return browser.get(at_the_provider(browser, query).removeprefix("http://localhost"))


def test_the_page_of_sign_in_leads_to_the_provider(provider, ann):
    page = Browser().get("/console/login/?next=/console/services/service/").content.decode()

    assert f'href="{BEGIN}?next=%2Fconsole%2Fservices%2Fservice%2F"' in page


def test_with_an_account_somebody_is_asked_for_their_code_and_is_in(provider, ann):
    browser = Browser()
    answer = come(browser, "?next=/console/services/service/")

    assert (answer.status_code, answer["Location"]) == (302, "/console/login/code/")
    assert not browser.is_in()
    assert browser.enter_code(code_of(ann))["Location"] == "/console/services/service/"
    assert browser.is_in()
    assert audited(ann) == ["person.signed_in"]


def test_a_provider_that_asked_for_a_second_factor_is_believed(provider, ann):
    provider.claims = {"amr": ["pwd", "mfa"]}
    browser = Browser()

    assert come(browser)["Location"] == "/console/"
    assert browser.is_in()


@pytest.mark.parametrize("amr", [["pwd"], ["otp"], [], "mfa-not"])
def test_another_word_is_no_second_factor(provider, db, amr):
    make_user(email=ANN)
    provider.claims = {"amr": amr}
    browser = Browser()
    come(browser)

    assert browser.get("/console/")["Location"] == "/console/account/authenticator/"


def test_the_flow_has_a_challenge_a_state_and_what_asks_again(provider, ann):
    come(Browser())
    come(Browser(), "?again=1")

    first, second = provider.asked
    assert (len(first["code_challenge"]), first["code_challenge_method"], "prompt" in first) == (43, "S256", False)
    assert (second["prompt"], second["max_age"]) == ("login", "0")
    assert first["state"] != second["state"]


@pytest.mark.parametrize(
    "told",
    [
        {"email": "bob@example.com", "email_verified": True},
        {"email": ANN, "email_verified": False},
        {"email": ANN},
        {"email": "", "email_verified": True},
        {"email": [ANN], "email_verified": True},
        {"email_verified": True},
        {"email": ANN, "email_verified": True, "sub": "somebody else"},
    ],
)
def test_only_a_verified_address_of_an_account_lets_in(provider, ann, told):
    provider.info = told
    browser = Browser()
    count = User.objects.count()

    assert come(browser)["Location"] == "/console/login/"
    assert not browser.is_in()
    assert User.objects.count() == count
    after = AuditEntry.objects.get(action="person.sign_in_failed").after
    assert after == {"address": "198.51.100.7", "wrong": "single sign-on"}


@pytest.mark.parametrize("lookalike", ["al\u0131ce@example.com", "ali\u017fe@example.com"])
def test_letters_that_the_database_takes_for_others_are_others(provider, db, lookalike):
    make_user("Finance", email="alice@example.com")
    make_user("Finance", email="alise@example.com")
    provider.info = {"email": lookalike, "email_verified": True}

    assert come(Browser())["Location"] == "/console/login/"


@pytest.mark.parametrize("flags", [{"is_active": False}, {"is_staff": False}])
def test_the_provider_lets_nobody_in_who_is_not_active_staff(provider, db, flags):
    make_user(email=ANN, **flags)
    browser = Browser()

    page = browser.get(come(browser)["Location"])
    assert "No active account here has your address" in text_of(page)


def test_an_address_that_two_accounts_have_lets_neither_in(provider, ann):
    make_user(email=ANN)

    assert come(Browser())["Location"] == "/console/login/"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "another client"},
        {"exp": int(time.time()) - 10},
    ],
)
def test_a_token_that_is_not_for_us_lets_nobody_in(provider, ann, claims):
    provider.claims = claims
    browser = Browser()

    assert come(browser)["Location"] == "/console/login/"
    assert not browser.is_in()


@pytest.mark.parametrize("forgery", ["another key", "no signature"])
def test_a_token_that_the_provider_did_not_sign_lets_nobody_in(provider, ann, forgery):
    if forgery == "another key":
        provider.signing_key = generate_private_key(65537, 2048)
    else:
        provider.algorithm = "none"

    assert come(Browser())["Location"] == "/console/login/"


def test_the_answer_to_one_browser_is_of_no_use_in_another(provider, ann):
    thief, victim = Browser(), Browser()
    back = at_the_provider(thief).removeprefix("http://localhost")

    assert victim.get(back)["Location"] == "/console/login/"
    assert not victim.is_in()


def test_a_code_is_of_no_use_twice(provider, ann):
    provider.claims = {"amr": ["mfa"]}
    browser = Browser()
    back = at_the_provider(browser).removeprefix("http://localhost")
    browser.get(back)
    browser.post("/console/logout/")

    assert browser.get(back)["Location"] == "/console/login/"
    assert not browser.is_in()


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "/v1/logs"])
def test_nobody_is_led_elsewhere_behind_the_provider(provider, ann, elsewhere):
    provider.claims = {"amr": ["mfa"]}

    assert come(Browser(), f"?next={elsewhere}")["Location"] == "/console/"


@pytest.mark.parametrize("process", ["connect", "redirect"])
def test_there_is_no_other_process_than_signing_in(provider, ann, process):
    provider.claims = {"amr": ["mfa"]}
    browser = Browser()

    assert come(browser, f"?process={process}&next=/console/")["Location"] == "/console/"
    assert browser.is_in()


def test_who_has_neither_password_nor_authenticator_confirms_at_the_provider(provider, db):
    person = make_user(email=ANN)
    person.set_unusable_password()
    person.save()
    provider.claims = {"amr": ["mfa"], "auth_time": int(time.time()) - 301}
    browser = Browser()
    come(browser)

    page = browser.get(browser.get(AUTHENTICATOR)["Location"]).content.decode()
    assert f'href="{BEGIN}?next=%2Fconsole%2Faccount%2Fauthenticator%2F&amp;again=1"' in page
    provider.claims["auth_time"] = int(time.time())
    come(browser, f"?next={AUTHENTICATOR}&again=1")
    assert browser.get(AUTHENTICATOR).status_code == 200


@pytest.mark.parametrize("auth_time", [None, "now", -301])
def test_a_provider_that_did_not_ask_who_somebody_is_proves_nothing(provider, db, auth_time):
    make_user(email=ANN)
    told = {} if auth_time is None else {"auth_time": "now" if auth_time == "now" else int(time.time()) + auth_time}
    provider.claims = {"amr": ["mfa"], **told}
    browser = Browser()
    for query in ("", f"?next={AUTHENTICATOR}&again=1"):
        come(browser, query)

        assert browser.is_in()
        assert browser.get(AUTHENTICATOR)["Location"].startswith("/console/account/confirm/")


def test_failures_at_the_provider_are_throttled(provider, ann):
    provider.info = {"email": "bob@example.com", "email_verified": True}
    browser = Browser()

    assert [come(browser).status_code for _ in range(6)] == [302, 302, 302, 302, 429, 429]


def test_a_provider_that_is_away_is_said_in_words(provider, ann, settings):
    settings.SOCIALACCOUNT_PROVIDERS = provider_settings("http://127.0.0.1:9", CLIENT, SECRET)
    browser = Browser()
    answer = browser.get(BEGIN)

    assert answer["Location"] == "/console/login/"
    assert "Single sign-on did not work" in text_of(browser.get("/console/login/"))


def test_without_a_provider_there_is_nothing(ann, settings):
    assert [Browser().get(page).status_code for page in (BEGIN, f"{BEGIN}callback/?state=x&code=y")] == [404, 404]
    assert "single sign-on" not in text_of(Browser().get("/console/login/"))


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example", "login.example", "https://", "https://login.example?x=1", "https://me@login.example",
     "https://login.example:0", "ftp://login.example", "https://[::1"],
)  # fmt: skip
def test_an_issuer_is_an_https_address(monkeypatch, issuer):
    monkeypatch.setenv("OIDC_ISSUER", issuer)
    configuration = Configuration()
    read_issuer(configuration, is_embedded=False)

    assert configuration.problems == ["OIDC_ISSUER is not an https:// address without a query."]


def test_a_part_of_the_provider_is_not_enough(monkeypatch):
    monkeypatch.setenv("OIDC_CLIENT_ID", CLIENT)
    configuration = Configuration()
    read_provider(configuration, "")

    missing = [problem.split(" is not set")[0] for problem in configuration.problems]
    assert missing == ["OIDC_ISSUER", "OIDC_CLIENT_SECRET"]


def test_what_is_not_left_behind_is_the_access_token(provider, ann):
    browser = Browser()
    come(browser)

    assert "an access token" not in str(dict(browser.client.session))
    wait_for_next_code(ann)


def test_the_address_behind_the_provider_is_ours(provider, ann):
    gone = Browser().get(BEGIN)["Location"]

    assert parse_qs(urlsplit(gone).query)["redirect_uri"] == [f"http://localhost{BEGIN}callback/"]
