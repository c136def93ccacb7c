"""The one table of settings: what each variable is, who reads it, and the sentence that says so. Pure.

Reading, who holds what, `manage.py setup`, the doctor and the tables of docs/operate/settings.md (`make tables`) are
made from it. CONTRIBUTING.md has the steps to add a setting.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from secrets import randbelow, token_hex, token_urlsafe
from typing import Any

from foundation.environment.casts import (
    SECP256K1_KEY,
    SECP256K1_ORDER,
    Key,
    one_of,
    read_decimal,
    read_decimal_above_0,
    read_flag,
    read_hosts,
    read_keys,
    read_secret_texts,
    read_texts,
    read_token,
    read_warnings,
    whole_number,
)
from foundation.environment.connections import OF_REPLICA, read_database
from foundation.environment.egress_proxy import read_egress_proxy
from foundation.environment.notices import NOTICE_ROLES, read_base_url, read_channels, read_mail_server
from foundation.environment.process_types import EVERY_TYPE, ProcessType
from foundation.environment.redis_addresses import read_redis
from foundation.environment.telemetry import read_collector, read_dsn, read_headers
from foundation.environment.thresholds import read_thresholds
from foundation.kernel.secrecy import SecretText

_OF_A_CHAIN = "CHAIN_<ALIAS>_"


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable. `cast` reads its text; `default` is the text that counts if it is not set, "" of a list.

    `says` is what the page of settings has of it, in Markdown; its first sentence stands in the file of variables, too.
    `shown` is the page's word for a default that depends on others. `is_required`: it stands in the page's table of
    what must be set. `holders` read it, besides commands; what not all hold is a secret unless it `is_public`.
    `example` and `make`, which makes a key: `manage.py setup` writes the variable to its file.
    """

    name: str
    cast: Callable[[str], Any]
    says: str
    default: str | None = None
    shown: str = ""
    holders: frozenset[ProcessType] = EVERY_TYPE
    is_public: bool = False
    is_required: bool = False
    example: str = ""
    make: Callable[[], str] | None = None

    @property
    def sentence(self) -> str:
        return self.says.partition(". ")[0].rstrip(".") + "."

    @property
    def is_secret(self) -> bool:
        return self.holders != EVERY_TYPE and not self.is_public

    @property
    def is_of_a_chain(self) -> bool:
        return self.name.startswith(_OF_A_CHAIN)


def _make_below_order() -> str:
    return f"{1 + randbelow(SECP256K1_ORDER - 1):064x}"


_NOBODY: frozenset[ProcessType] = frozenset()  # commands alone
_WEB, _WORKER = frozenset({ProcessType.WEB}), frozenset({ProcessType.WORKER})
_WEBHOOKS, _BEAT = frozenset({ProcessType.WEBHOOKS}), frozenset({ProcessType.BEAT})
_CHAINS = _WEB | _WORKER

# fmt: off
SETTINGS = (
    # --- What must be set ---------------------------------------------------------------------------------------------
    Setting("DATABASE_URL", read_database, is_required=True, holders=_WEB | _WORKER | _WEBHOOKS,
        example="postgres://user:password@host:5432/name?sslmode=verify-full",
        says="The address of PostgreSQL. It is `postgres://user:password@host:5432/name`, with libpq's options behind "
        "it, such as `?sslmode=verify-full&sslrootcert=system`."),
    Setting("REDIS_URL", read_redis, is_required=True, holders=_WEB | _WORKER | _WEBHOOKS | _BEAT,
        example="redis://:password@host:6379/0",
        says="The address of Redis, for the broker and the rate limits: `rediss://` speaks TLS. It is `redis://…`, or "
        "`rediss://…`, whose certificate and host name are always verified (`?ssl_ca_certs=FILE` for an authority of "
        "your own); or [through Sentinels](docs/operate/proxies.md#redis) "
        "`redis+sentinel://:password@host:26379,host:26379,host:26379/NAME`, with TLS `rediss+sentinel://…`."),
    Setting("SECRET_KEY", SecretText, is_required=True, holders=_WEB, make=partial(token_urlsafe, 48),
        says="Django's secret: sessions, page cursors, one-time links; it encrypts the secrets of authenticators."),
    Setting("ALLOWED_HOSTS", read_hosts, is_required=True, holders=_WEB, is_public=True, example="pay.example.com",
        says="The host names that are answered, separated by commas."),
    Setting("POLICY_SIGNER_ED25519_KEY", Key(), is_required=True, holders=_WEB | _WORKER, make=partial(token_hex, 32),
        says="Signs log entries and proofs of payment: 32 bytes in hex."),
    Setting("WEBHOOK_SIGNING_KEY", Key(), is_required=True, holders=_WEB | _WEBHOOKS, make=partial(token_hex, 32),
        says="Signs webhooks (`v1a`), and nothing else: 32 bytes in hex. `web` publishes its public half."),
    Setting("POLICY_SIGNER_SECP256K1_KEY", SECP256K1_KEY, is_required=True, holders=_WEB | _WORKER,
        make=_make_below_order,
        says="Co-signs payments on EVM chains: 32 bytes in hex; its address is the escrow's `policySigner`."),
    Setting("RELAYER_SEED", Key(64), is_required=True, holders=_WEB | _WORKER, make=partial(token_hex, 64),
        says="The seed of the relayers' accounts, which submit payments: 64 bytes in hex (BIP-32). Relayer *i* is "
        "`m/44'/60'/0'/0/i`. It must not be the policy signer's key. After a change the relayers of the old seed get "
        "no new payments until the old seed is back; their transactions under way are followed."),
    Setting("CHAIN_<ALIAS>_RPC_URLS", read_secret_texts, is_required=True, holders=_CHAINS, default="",
        says="The nodes of the chain, best of three providers, in order of preference, each once. An address may hold "
        "a provider's key. A chain that has this variable is served, e.g. `CHAIN_BASE_RPC_URLS`; for a chain that is "
        "not served no variable may be set. Test networks and others are not served together."),
    Setting("CHAIN_<ALIAS>_ESCROW", str, is_required=True, holders=_CHAINS, is_public=True, default="",
        says="The address of the chain's escrow, which `manage.py deploy_escrow` makes and prints. On Solana it is the "
        "multisig of SPL Token."),
    Setting("CHAIN_<ALIAS>_OWNER", str, is_required=True, holders=_CHAINS, is_public=True, default="",
        says="The address of the escrow's owner, which `manage.py deploy_escrow` prints. On Solana it is the third "
        "signer and must be set. On an EVM chain the contract itself knows its owner; if this is set, `release` and "
        "the doctor refuse an escrow that anybody else owns."),
    Setting("CHAIN_<ALIAS>_FIRST_BLOCK", whole_number(least=0), holders=_CHAINS, is_public=True,
        shown="0; on Solana it must be set",
        says="The block in which the escrow was deployed, where the search for deposits begins: `deploy_escrow` prints "
        "it."),
    Setting("POLICY_SIGNER_SOLANA_KEY", Key(), is_required=True, holders=_WEB | _WORKER, make=partial(token_hex, 32),
        says="Co-signs payments on Solana: 32 bytes in hex; needed only where a Solana chain is served."),
    Setting("WEBHOOK_SECRETS_KEY", Key(), is_required=True, holders=_WEB | _WEBHOOKS, make=partial(token_hex, 32),
        says="Encrypts the secrets that webhooks are signed with: 32 bytes in hex."),
    # --- What may be set: servers and chains --------------------------------------------------------------------------
    Setting("DATABASE_REPLICA_URL", partial(read_database, options=OF_REPLICA), holders=_WEB,
        says="The address of a streaming replica of PostgreSQL, in the form of `DATABASE_URL`. The log, budgets and "
        "the console's pages are read there, and may then be up to 5 s old; see "
        "[Growing](docs/operate/growing.md#read-replicas)."),
    Setting("CHAIN_<ALIAS>_TOKENS", read_texts, holders=_CHAINS, is_public=True, default="", shown="the issuers' own",
        says="Further tokens: `USDC=<address>,EURC=<address>`. An asset without an address (`USDT=`) is [left "
        "out](docs/operate/chains.md#assets-out-of-service)."),
    Setting("CHAIN_<ALIAS>_FINALITY_DEPTH", whole_number(), holders=_CHAINS, is_public=True,
        shown="the `finalized` tag",
        says="EVM: a block is final under this many others, for nodes without the tag."),
    Setting("PREPARED_STATEMENTS", read_flag, default="true",
        says="The statements of the money path are planned once per connection of the database, not once per payment. "
        "Set it to false behind a pooler that gives each transaction another session and does not track prepared "
        "statements: PgBouncer in transaction mode before 1.22 (which `DEALLOCATE ALL` needs), or with "
        "`max_prepared_statements = 0`. Payments there would get 503 now and then."),
    Setting("RELAYERS_PER_CHAIN", whole_number(), default="16", example="16",
        says="How many accounts submit on each EVM chain. Payments of different agents do not wait for each other's "
        "nonce."),
    Setting("MAX_IN_FLIGHT_PER_RELAYER", whole_number(), default="16",
        says="EVM: how many transactions of one relayer wait for a block; nodes keep no more of one sender. On every "
        "chain a relayer needs gas money for this many."),
    Setting("STUCK_AFTER_S", whole_number(), default="120",
        says="EVM: a transaction that no block holds after this time gets a higher fee."),
    Setting("MAX_PRIORITY_FEE_MICRO_LAMPORTS", whole_number(), default="5000000",
        says="The most that a compute unit may cost on Solana."),
    Setting("PAYMENT_VALIDITY_S", whole_number(least=60, most=3600), default="900",
        says="EVM: a signature for a payment is valid for this long of the chain's time (60 to 3600 s). Money comes "
        "back after that, or by `void`: if it is shorter, transactions expire before they are included; if longer, "
        "failed payments are credited back late."),
    Setting("MAX_FEE_GWEI", whole_number(), default="1000",
        says="EVM: the most that a unit of gas may cost. While it costs more, new payments get 503."),
    Setting("CHAIN_<ALIAS>_MAX_TIP_GWEI", read_decimal, holders=_CHAINS, is_public=True,
        shown="the chain's own (`chains/catalogue.py`): Ethereum 5, Polygon 300, Avalanche 10, rollups 0.1",
        says="EVM: the highest tip that is offered, whatever the nodes suggest. Of the suggestions of two or more "
        "nodes the lowest counts. The replacement of a stuck transaction may exceed it, by an eighth at a time and up "
        "to `MAX_FEE_GWEI`: nodes accept nothing less in its place."),
    Setting("GAS_BUDGET_PER_AGENT", read_decimal_above_0, example="0.05",
        says="What the transactions of one agent may cost in any 24 hours on one chain, in its coin (ETH, POL, AVAX, "
        "SOL). A transaction that has ended counts with its real cost, one under way with its highest possible cost. "
        "Beyond the budget: 503. If one of two providers leaves `l1Fee` out of a rollup's receipts, they never agree "
        "on a cost; all payments there count with their highest possible cost."),
    Setting("RECONCILE_STOP_ABOVE", read_decimal, default="0",
        says="How much may be missing before signing stops, in units of the asset. Signing stops on a chain where two "
        "comparisons in a row miss more than this, and at once on all chains of an asset of which the balances promise "
        "more than all escrows hold, by more than this."),
    Setting("CHAIN_STATE_MAX_AGE_S", whole_number(), default="60",
        says="What the watcher saw of a chain is stale after this; payments there get 503."),
    Setting("CHAIN_<ALIAS>_MOST_TOGETHER", whole_number(most=64), holders=_CHAINS, is_public=True, default="32",
        example="16",
        says="The most payments that one transaction makes. It can cost what so many would cost by themselves, and "
        "needs room for that in a block; at most 64. An EVM escrow of an earlier release makes one at a time all the "
        "same. On Solana a transaction has room for nine payments of a token, five that make their payees' accounts, "
        "or two of SOL; one that fails there lets none of them be paid, and each is then signed alone."),
    Setting("CHAIN_<ALIAS>_MIN_PAYMENT", read_texts, holders=_CHAINS, is_public=True, default="",
        example="USDC=0.01,EURC=0.01",
        says="The smallest amounts that are paid there, as `USDC=0.01,EURC=0.01`: each payment costs gas. Less is "
        "refused. `check --deploy` warns about a main network without one."),
    # --- What may be set: requests ------------------------------------------------------------------------------------
    Setting("RATE_LIMIT_PER_MINUTE", whole_number(), default="1200", example="1200",
        says="Requests of one API key in a minute, over all processes; `make demo` sets 60000. Each process takes up "
        "to 32 at a time from Redis, fewer towards the limit; those that it has not used at the end of the minute are "
        "lost. Whatever Redis says, a process lets a sixteenth of the limit pass, at least one request, and never more "
        "than the limit."),
    Setting("REFUSALS_PER_MINUTE", whole_number(most=10_000), default="600",
        says="Refusals of one agent that are logged in a minute, 503 included (at most 10000); the log keeps them for "
        "ever. Further refusals get 429 and are not logged. Payments that can be approved are approved all the same."),
    Setting("DECIDE_TOGETHER", whole_number(most=32), default="32",
        says="How many payment requests one process decides in one transaction, 1 to 32; 1 decides each by itself. See "
        "[Decide together](docs/decisions/decide-together.md)."),
    Setting("SETTLE_WITHIN_MS", whole_number(least=0, most=1000), default="0",
        says="For so many milliseconds, at most 1000, payment requests gather in a process before they are decided, or "
        "until `DECIDE_TOGETHER` wait: more of them share a transaction, and each answer comes so much later. One key "
        "has at most 16 requests in a process at a time. See [Settle together](docs/decisions/settle-together.md)."),
    # --- What may be set: keys ----------------------------------------------------------------------------------------
    Setting("OIDC_ISSUER", str,
        says="Staff may sign in with this provider of OpenID Connect, too: its `https://` address. The address to "
        "register there is `https://HOST/console/login/sso/callback/`. See [Sign "
        "in](docs/console/sign-in.md#single-sign-on)."),
    Setting("OIDC_CLIENT_ID", str, says="What the provider of `OIDC_ISSUER` knows this installation by."),
    Setting("OIDC_CLIENT_SECRET", SecretText, holders=_WEB,
        says="What this installation proves itself with to the provider of `OIDC_ISSUER`."),
    Setting("METRICS_TOKEN", read_token, holders=_WEB, make=partial(token_urlsafe, 32),
        says="The bearer token of `/metrics`, of at least 16 characters; without it the page does not exist."),
    Setting("DEPLOYER_KEY", SECP256K1_KEY, holders=_NOBODY,
        says="The key in hex that pays for `deploy_escrow` on EVM chains, and, if it is the owner's, makes the calls "
        "of `rotate_keys`."),
    Setting("DEPOSIT_KEY", SECP256K1_KEY, holders=_NOBODY,
        says="The key in hex that pays for `deposit` and `fund_relayers`, on a test network alone. Only "
        "[the owner's tools](docs/operate/owner.md) read it."),
    Setting("OLD_RELAYER_SEED", Key(64), holders=_NOBODY, says="The earlier seed, for `rotate_keys` alone."),
    Setting("OLD_POLICY_SIGNER_SOLANA_KEY", Key(), holders=_NOBODY, says="The earlier key, for `rotate_keys` alone."),
    Setting("RETIRED_RECEIPT_KEYS", read_keys, default="",
        says="Public Ed25519 keys in hex that signed earlier entries."),
    Setting("WEBHOOK_SIGNING_KEY_FALLBACKS", read_keys, holders=_WEBHOOKS, default="",
        says="Keys in hex that sign webhooks beside `WEBHOOK_SIGNING_KEY`, each with a signature of its own: an "
        "earlier one, for a day."),
    Setting("SECRET_KEY_FALLBACKS", read_secret_texts, holders=_WEB, default="",
        says="Earlier values of `SECRET_KEY`. Keep one until everybody has signed in since: each sign-in encrypts that "
        "authenticator's secret anew."),
    Setting("WEBHOOK_SECRETS_KEY_FALLBACKS", read_keys, holders=_WEB | _WEBHOOKS, default="",
        says="Earlier values of `WEBHOOK_SECRETS_KEY`, separated by commas. Each decrypts the secrets that it "
        "encrypted, until `webhooks reseal`."),
    # --- What may be set: webhooks, and the number of processes -------------------------------------------------------
    Setting("WEBHOOKS_ALLOW_PRIVATE", read_flag, default="false",
        says="For development, refused without `EMBEDDED`: webhook URLs may be `http://` to this machine. Other "
        "private addresses stay refused; public ones are `https://`."),
    Setting("WEBHOOK_PROXY_URL", read_egress_proxy, holders=_WORKER | _WEBHOOKS,
        example="http://proxy.example.com:3128",
        says="Webhooks, and notices to `NOTICE_URLS`, leave through this proxy and in no other way. It is "
        "`http://user:password@host:port`, or `https://…` (`?ssl_ca_certs=FILE` for an authority of your own). See [An "
        "egress proxy](docs/operate/proxies.md#an-egress-proxy)."),
    Setting("SSL_CERT_FILE", str, shown="certifi's",
        says="Certificate authorities that the certificates of payees' receivers may come from."),
    Setting("WEB_CONCURRENCY", whole_number(), default="2", example="2",
        says="Operating system processes of `web` (`Procfile`)."),
    Setting("WORKER_CONCURRENCY", whole_number(), default="4", example="4",
        says="Operating system processes of `worker` (`Procfile`)."),
    Setting("WEBHOOK_CONCURRENCY", whole_number(), default="2", example="2",
        says="Operating system processes of `webhooks` (`Procfile`); one waits for up to 512 receivers."),
    # --- What may be set: mcp, which reads its variables by itself (clients/python) -----------------------------------
    Setting("ALLOWANCE_URL", str, example="https://pay.example.com",
        says="Where `mcp`, which needs it, reaches `web`; nothing else reads it. It is `https://`, as clients do; "
        "`http://` on this machine alone, because it sends keys there."),
    Setting("MCP_ALLOWED_HOSTS", str, example="pay.example.com", shown="this machine's",
        says="The host names that `mcp` is asked by, separated by commas; any other gets 421."),
    Setting("MCP_ALLOWED_ORIGINS", str,
        says="Origins of pages in browsers that may ask `mcp`, `https://app.example.com`; any other page gets 403."),
    Setting("MCP_CONCURRENCY", whole_number(), default="1", says="Operating system processes of `mcp`."),
    # --- What may be set: the console ---------------------------------------------------------------------------------
    Setting("FOUR_EYES", read_flag, default="true", shown="true, false if embedded",
        says="What is hard to undo needs a second person in the console."),
    Setting("FOUR_EYES_ABOVE", read_thresholds, shown="0 of each asset",
        says="What agents may spend in 7 days on limits that single people let in, all together: `USDC=100,SOL=1`. "
        "Above it a new agent and a raised limit need a second person. See [Four "
        "eyes](docs/console/four-eyes.md#what-one-person-may-let-agents-spend)."),
    Setting("TOTP_REQUIRED", read_flag, default="true", shown="true, false if embedded",
        says="Staff sign in with an authenticator besides the password."),
    Setting("HTTPS", read_flag, default="true", shown="true, false if embedded",
        says="Redirect to https, secure cookies, HSTS."),
    Setting("HSTS_PRELOAD", read_flag, default="false",
        says="Browsers are told to use https for all names below this host's, too, and that it may go into their "
        "built-in lists. That is hard to undo and may concern names that are not yours alone; without it they are told "
        "so for this host alone, for a year."),
    Setting("TRUSTED_PROXIES", whole_number(least=0, most=10), example="1",
        shown="1 with `HTTPS`, which a proxy ends; else 0",
        says="How many proxies stand in front of `web`, each of which appends the address of its client to "
        "`X-Forwarded-For`. The client's address, which [ranges of API "
        "keys](docs/console/keys.md#addresses-behind-a-proxy) are compared with, stands as many places from the right. "
        "0: the header is not read, and the address of the connection counts. It must be right: limits on wrong "
        "passwords count by this address, too."),
    Setting("CSRF_TRUSTED_ORIGINS", read_texts, default="", says="Origins of the console behind a proxy."),
    # --- What may be set: notices -------------------------------------------------------------------------------------
    Setting("EMAIL_URL", read_mail_server, holders=_WEB | _WORKER, example="smtps://user:password@mail.example.com",
        says="The mail server that notices and one-time links go out by; without it no e-mail is sent. It is "
        "`smtps://user:password@host` (TLS, port 465) or `smtp://user:password@host` (STARTTLS, port 587; `?tls=no` "
        "behind it for a server that needs no encryption). See [notices](docs/console/alarms.md#notices) and [one-time "
        "links](docs/console/roles.md#one-time-links)."),
    Setting("DEFAULT_FROM_EMAIL", str, example="allowance@example.com",
        says="The sender of e-mails; must be set where `EMAIL_URL` is."),
    Setting("NOTICE_URLS", partial(read_channels, names=NOTICE_ROLES, check=str), holders=_WEB | _WORKER, default="",
        example="operations=https://hooks.example.com/services/T0/B0",
        says="Where notices go besides, for each role, in the form of Slack's incoming webhooks. The form is "
        "`finance=https://…,operations=https://…,administrator=https://…`. Such a URL is a secret."),
    Setting("CONSOLE_URL", read_base_url, example="https://pay.example.com",
        says="The address of the console for the links of notices, without a path: `https://pay.example.com`. Without "
        "it they have no links, and no one-time link is sent."),
    # --- What may be set: this machine, logs and reports --------------------------------------------------------------
    Setting("EMBEDDED", read_flag, default="false", says="Start on this machine whatever has no URL."),
    Setting("EMBEDDED_DIR", str, default=".data", says="The folder of the data of `EMBEDDED`."),
    Setting("SILENCED_SYSTEM_CHECKS", read_warnings, default="",
        says="Warnings of `check --deploy` that you accept, on record: `allowance.W001,…`. Errors cannot be silenced."),
    Setting("DEBUG", read_flag, default="false",
        says="For development, refused without `EMBEDDED`: error pages that show everything except secrets."),
    Setting("LOG_LEVEL", one_of("info", "debug", "warning", "error", "critical"), default="INFO", example="INFO",
        says="The least severe level that is logged: DEBUG, INFO, WARNING, ERROR or CRITICAL. What Celery says of "
        "itself follows the `--loglevel` of its command."),
    Setting("LOG_FORMAT", one_of("plain", "json"), default="plain", example="json",
        says="`plain`, or `json`: each line of the log is a JSON object. See [Logs](docs/operate/logging.md)."),
    Setting("ACCESS_LOG", read_flag, default="false",
        says="Each request has a line in the log. See [Logs](docs/operate/logging.md#a-line-for-each-request)."),
    Setting("RETENTION_DAYS", whole_number(least=30),
        says="How old in days, at least 30, what is over must be before `manage.py archive` moves it into files. "
        "Nothing is ever removed without that command. See [Retention](docs/operate/retention.md)."),
    Setting("SENTRY_DSN", read_dsn, holders=_WEB | _WORKER | _WEBHOOKS | _BEAT,
        example="https://key@sentry.example.com/1",
        says="Where errors are reported: `https://KEY@HOST/PROJECT`; needs `requirements-telemetry.txt`. See "
        "[Logs](docs/operate/logging.md#errors-to-sentry)."),
    Setting("OTEL_EXPORTER_OTLP_ENDPOINT", read_collector, holders=_WEB | _WORKER | _WEBHOOKS,
        says="The collector of traces by OTLP over HTTP; needs `requirements-telemetry.txt`. See "
        "[Logs](docs/operate/logging.md#traces-by-opentelemetry)."),
    Setting("OTEL_EXPORTER_OTLP_HEADERS", read_headers, holders=_WEB | _WORKER | _WEBHOOKS,
        says="Headers for the collector: `name=value,name=value`."),
)
# fmt: on
# What may be set of each chain, behind `CHAIN_<ALIAS>_`.
OF_A_CHAIN = tuple(one.name.removeprefix(_OF_A_CHAIN) for one in SETTINGS if one.is_of_a_chain)
_BY_NAME = {one.name: one for one in SETTINGS}
_CHAIN = re.compile(rf"CHAIN_[A-Z0-9_]+_({'|'.join(OF_A_CHAIN)})")


def find_setting(name: str) -> Setting | None:
    """Find the row of a variable, or of a chain's."""
    of_a_chain = _CHAIN.fullmatch(name)
    return _BY_NAME.get(_OF_A_CHAIN + of_a_chain[1] if of_a_chain else name)


def setting_of(name: str) -> Setting:
    """Return the row of a variable, or of a chain's.

    Raises:
        LookupError: there is none.
    """
    setting = find_setting(name)
    if setting is None:
        raise LookupError(f"foundation/environment/table.py has no {name}.")
    return setting


def is_reader(types: frozenset[ProcessType], name: str) -> bool:
    """Tell whether a process of these types reads a variable. Commands read all; what is none of ours is anybody's."""
    setting = find_setting(name)
    return setting is None or ProcessType.COMMAND in types or bool(types & setting.holders)


def is_secret(name: str) -> bool:
    """Tell whether the value of a variable is a secret."""
    setting = find_setting(name)
    return setting is not None and setting.is_secret
