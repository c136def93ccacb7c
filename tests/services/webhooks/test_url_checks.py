"""Static checks of a webhook URL."""

import pytest

from services.webhooks.url_checks import WebhookUrlError, check_webhook_url


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com", "https://example.com/", "https://example.com/hook?x=1&y=%20", "HTTPS://EXAMPLE.COM/hook",
        "https://example.com:443/", "https://example.com:8443/", "https://example.com:1024/", "https://example.com:65535",
        "https://a.b-c.example.co.uk/x", "https://xn--bcher-kva.example/", "https://example.com./",
        "https://under_score.example.com/", "https://1e100.net/",
    ],
)  # fmt: skip
def test_an_absolute_https_url_of_a_public_name_is_kept_as_it_is(url):
    assert check_webhook_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com", "/hook", "https:", "https://", "https:///x", "https:example.com",
        "http://example.com", "ftp://example.com", "javascript:alert(1)", "file:///etc/passwd", "wss://example.com",
        "https://user@example.com", "https://user:pass@example.com", "https://@example.com", "https://example.com@evil.com",
        "https://127.0.0.1/", "https://10.0.0.1:8443/", "https://8.8.8.8/", "https://[::1]/", "https://[2001:db8::1]/",
        "https://[::ffff:10.0.0.1]/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://127.1/",
        "https://0177.0.0.1/", "https://169.254.169.254/latest/meta-data", "https://127.0.0.1./",
        "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://printer/", "https://a.local/",
        "https://a.localhost/", "https://a.internal/", "https://metadata.google.internal/", "https://A.LOCAL./",
        "https://example.com:0/", "https://example.com:22/", "https://example.com:80/", "https://example.com:1023/",
        "https://example.com:65536/", "https://example.com:-1/", "https://example.com:abc/",
        "https://example.com/#x", "https://exa mple.com/", "https://example.com/a b", "https://example.com\n/",
        " https://example.com", "https://example.com\\@evil.com/", "https://b\u00fccher.example/", "https://example\u3002com/",
        "https://-a.example/", "https://a-.example/", "https://a..example/", "https://.example/",
        f"https://{'a' * 64}.example/", "https://" + "a." * 127 + "com/", "https://[example.com/", "https://%65xample.com/",
        "https://[v1.example.com]/", "https://example.com[::1]/", "https://[fe80::1%25eth0]/", "https://127.0.0.1:443/",
        "https://0x7f.0.0.1/", "https://017700000001/", "https://example.com:+443/", "https://example.com: 443/",
        "https://a.lan/", "https://a.home.arpa/", "https://a.localdomain/", "https://example.com\t/", "https://\x00example.com/",
    ],
)  # fmt: skip
def test_any_other_url_is_refused(url):
    with pytest.raises(WebhookUrlError):
        check_webhook_url(url)


# --- Development ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/", "http://LOCALHOST:8000/hook", "http://127.0.0.1:1/", "http://127.255.255.255:80/x?y=1",
        "http://127.0.0.1", "http://[::1]/", "http://[::1]:65535/", "http://[0:0:0:0:0:0:0:1]:22/",
    ],
)  # fmt: skip
def test_development_admits_http_to_this_machine_on_any_port_and_nobody_else_does(url):
    assert check_webhook_url(url, allow_loopback=True) == url
    with pytest.raises(WebhookUrlError):
        check_webhook_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "http://10.0.0.1/", "http://192.168.1.1:8000/", "http://0.0.0.0/", "http://[::]/",
        "http://126.255.255.255/", "http://128.0.0.0/", "http://[::2]/", "http://[::ffff:127.0.0.1]/", "http://[::1%25lo]/",
        "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://localhost.example.com/",
        "http://localhost./", "http://a.localhost/", "http://printer/", "http://user@localhost/", "http://localhost@evil.com/",
        "http://localhost/#x", "http://localhost:99999/", "http://localhost\\@evil.com/", "ftp://localhost/", "http:///",
        "ws://127.0.0.1/", "file://localhost/etc/passwd", "//localhost/", "http://[127.0.0.1]/",
        "https://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/", "https://example.com:80/",
    ],
)  # fmt: skip
def test_development_admits_nothing_else(url):
    with pytest.raises(WebhookUrlError):
        check_webhook_url(url, allow_loopback=True)


def test_development_admits_what_anybody_does():
    assert check_webhook_url("https://example.com:8443/hook", allow_loopback=True) == "https://example.com:8443/hook"


# --- Registration -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("length", "status"), [(2048, 201), (2049, 400)])
def test_a_url_has_at_most_2048_characters(api, length, status):
    url = "https://example.com/"
    body = {
        "id": f"long-{length}",
        "name": "A shop",
        "recipient": "base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "asset": "USDC",
        "webhookUrl": url + "x" * (length - len(url)),
    }

    assert api.post("/v1/services", body).status_code == status
