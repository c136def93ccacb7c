"""Steps of docs/operate/keys.md with what moves no money: keys of receipts, sessions, webhooks; tokens, passwords."""

import base64
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests
from allowance_client import verify_webhook
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from standardwebhooks import Webhook

from policy.signer import receipt_jwk
from tests.runbooks.clients import Clients
from tests.runbooks.installation import Company, block
from tests.runbooks.patience import wait_for
from tests.runbooks.releases import OVER_TLS
from tests.support.runbook import blocks
from workshop.localnet import postgres

PAGE = "docs/operate/keys.md"
_READERS = ("web", "webhooks")
_NONCE = 12
_LOGIN = "payer"


@dataclass(frozen=True, slots=True)
class Before:
    """What others know from before the exchange: an agent the next page of the log, a payee its signing secret."""

    variables: dict[str, str]
    next_page: str
    signing_secret: bytes


def look(company: Company, clients: Clients) -> Before:
    for agent in clients.agents:
        clients.pay(agent)
    company.payee.wait_for(1)
    ((ciphertext,),) = company.sql("SELECT ciphertext FROM services_webhooksecret WHERE endpoint_id = 'shop'")
    key = bytes.fromhex(company.this.variables["WEBHOOK_SECRETS_KEY"])
    signing_secret = AESGCM(key).decrypt(ciphertext[:_NONCE], ciphertext[_NONCE:], b"shop")
    cursor = clients.get("/v1/logs?limit=1").json()["nextCursor"]
    return Before(
        {"METRICS_TOKEN": "not set", **company.this.variables}, f"/v1/logs?limit=1&cursor={cursor}", signing_secret
    )


def exchange(company: Company, before: Before) -> None:
    """Exchange all of them at once, keep the old ones as the page says, and restart who reads them."""
    company.this.variables.update(_new_values(company, before.variables))
    for kind in _READERS:
        company.this.stop(kind)
    company.this.start(*_READERS)


def check(company: Company, clients: Clients, before: Before) -> None:
    """See that what others know from before is still good, and what was stolen is not."""
    new = company.this.variables
    assert clients.get(before.next_page).status_code == 200
    assert [_status_of_metrics(company, one["METRICS_TOKEN"]) for one in (before.variables, new)] == [401, 200]
    assert company.sql(f"SELECT FROM pg_stat_activity WHERE usename = '{_LOGIN}' AND application_name = 'this web'")
    told = len(company.payee.requests)
    clients.pay(clients.agents[0])
    request = company.payee.wait_for(told + 1)[-1]
    headers = {name.lower(): value for name, value in request.headers}
    Webhook(base64.b64encode(before.signing_secret).decode()).verify(request.body, headers)
    for key in (before.variables["WEBHOOK_SIGNING_KEY"], new["WEBHOOK_SIGNING_KEY"]):
        public = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key)).public_key().public_bytes_raw()
        verify_webhook(headers, request.body, service="shop", keys={"keys": [receipt_jwk(public)]})
    assert company.run(block(PAGE, "reseal")).answer["problems"] == []
    assert _is_published(company, new["RETIRED_RECEIPT_KEYS"])


def take_away(company: Company, before: Before) -> None:
    """Take the old ones away: no process needs them any more."""
    for name in ("SECRET_KEY_FALLBACKS", "WEBHOOK_SECRETS_KEY_FALLBACKS", "WEBHOOK_SIGNING_KEY_FALLBACKS"):
        del company.this.variables[name]
    for kind in ("worker", "beat"):
        company.this.stop(kind)
        company.this.start(kind)
    wait_for(lambda: _logins(company) == {_LOGIN}, "nobody uses the old role")
    _tell_redis(company, '"<%s', before.variables["REDIS_URL"], company.this.variables["REDIS_URL"])


def _new_values(company: Company, old: dict[str, str]) -> dict[str, str]:
    password = secrets.token_urlsafe()
    admin = old["DATABASE_URL"]
    roles = block(PAGE, "CREATE ROLE")
    company.run(roles, ADMIN=admin, OWNER=postgres.USER, NEW_LOGIN=_LOGIN, NEW_PASSWORD=password)
    new_redis = old["REDIS_URL"].replace(_password(old["REDIS_URL"]), password)
    _tell_redis(company, '">%s', old["REDIS_URL"], new_redis)
    return {
        "POLICY_SIGNER_ED25519_KEY": secrets.token_hex(32),
        "RETIRED_RECEIPT_KEYS": company.run(block(PAGE, "public_bytes_raw")).output.strip(),
        "WEBHOOK_SIGNING_KEY": secrets.token_hex(32),
        "WEBHOOK_SIGNING_KEY_FALLBACKS": old["WEBHOOK_SIGNING_KEY"],
        "SECRET_KEY": secrets.token_hex(32),
        "SECRET_KEY_FALLBACKS": old["SECRET_KEY"],
        "WEBHOOK_SECRETS_KEY": secrets.token_hex(32),
        "WEBHOOK_SECRETS_KEY_FALLBACKS": old["WEBHOOK_SECRETS_KEY"],
        "METRICS_TOKEN": secrets.token_urlsafe(),
        "DATABASE_URL": old["DATABASE_URL"].replace(f"//{postgres.USER}@", f"//{_LOGIN}@"),
        "REDIS_URL": new_redis,
    }


def _tell_redis(company: Company, words: str, old: str, new: str) -> None:
    """Run a block about Redis' passwords, which are those of two URLs."""
    place = urlsplit(old)
    said = company.run(
        block(PAGE, words), REDIS_HOST=place.hostname or "", REDIS_PORT=str(place.port),
        OLD_PASSWORD=_password(old), NEW_PASSWORD=_password(new),
    )  # fmt: skip
    assert said.output == "OK\n"


def _password(url: str) -> str:
    return urlsplit(url).password or ""


def _status_of_metrics(company: Company, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return requests.get(f"{company.this.url}/metrics", headers=headers, timeout=30).status_code


def _is_published(company: Company, public_key: str) -> bool:
    published = requests.get(f"{company.this.url}/.well-known/allowance-keys.json", timeout=30, headers=OVER_TLS).json()
    x = base64.urlsafe_b64encode(bytes.fromhex(public_key)).rstrip(b"=").decode()
    return x in {key["x"] for key in published["keys"]}


def _logins(company: Company) -> set[str]:
    found = company.run(
        [one for one in blocks(PAGE) if "usename" in one.code], ADMIN=company.this.variables["DATABASE_URL"]
    )
    return set(found.output.split())
