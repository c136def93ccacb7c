"""Where notices go, by the environment: what is wrong is said without the address, which may hold a password."""

from functools import partial

import pytest

from foundation.environment.notices import MailServer, read_base_url, read_channels, read_mail_server
from services.webhooks.url_checks import check_webhook_url

read_roles = partial(read_channels, names=("finance", "operations"), check=check_webhook_url)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtps://mail.example", MailServer("mail.example", 465, is_tls=True)),
        ("smtp://mail.example", MailServer("mail.example", 587, is_starttls=True)),
        ("smtp://a%40b:p%2Fw@mail.example:2525/", MailServer("mail.example", 2525, "a@b", "p/w", is_starttls=True)),
        ("smtp://127.0.0.1:25?tls=no", MailServer("127.0.0.1", 25)),
    ],
)
def test_a_mail_server_is_spoken_to_in_secret_unless_that_is_declined(url, server):
    assert read_mail_server(url) == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.example", "https://mail.example", "smtp://", "smtp://u:pass-word@/", "smtps://mail.example?tls=no",
        "smtp://mail.example?tls=maybe", "smtp://mail.example/inbox", "smtp://mail.example:port",
    ],
)  # fmt: skip
def test_what_is_no_mail_server_is_refused(url):
    with pytest.raises(ValueError, match=r"^(is not|has)") as refused:
        read_mail_server(url)
    assert "pass-word" not in str(refused.value)


def test_each_role_has_a_url_of_its_own():
    assert read_roles("finance=https://chat.example/a=b, operations=https://chat.example/c") == {
        "finance": "https://chat.example/a=b",
        "operations": "https://chat.example/c",
    }


@pytest.mark.parametrize(
    "text",
    [
        "https://chat.example/pass-word", "cooks=https://chat.example/pass-word", "finance=http://chat.example/pass-word",
        "finance=https://10.0.0.1/pass-word", "finance=https://a.example,finance=https://b.example/pass-word",
        "finance",
    ],
)  # fmt: skip
def test_what_is_no_list_of_channels_is_refused(text):
    with pytest.raises(ValueError, match=r"^(is not|has)") as refused:
        read_roles(text)
    assert "pass-word" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "base"), [("https://pay.example/", "https://pay.example"), ("http://127.0.0.1:80", "http://127.0.0.1:80")]
)
def test_links_begin_with_the_address_of_the_console(url, base):
    assert read_base_url(url) == base


@pytest.mark.parametrize(
    "url", ["pay.example", "https://pay.example/console/", "javascript://x", "https://u:p@pay.example"]
)
def test_what_is_no_address_of_a_console_is_refused(url):
    with pytest.raises(ValueError, match="is not"):
        read_base_url(url)
