"""Settings, from the environment only. docs/operate/settings.md has the table of variables."""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

from allowance.api_settings import *  # noqa: F403 - what Django REST framework and drf-spectacular read
from allowance.boot import find_embedded, forget_secrets, installed_apps, is_embedded, process_types
from allowance.log_settings import LOGGING_CONFIG as LOGGING_CONFIG  # noqa: PLC0414 - a setting of its own module
from allowance.log_settings import log_settings
from allowance.navigation import UNFOLD as UNFOLD  # noqa: PLC0414 - a setting of its own module
from allowance.sign_in_settings import *  # noqa: F403 - what django-allauth and django-axes read
from allowance.task_settings import *  # noqa: F403 - what Celery reads
from chains.catalogue import Vm
from chains.chain_settings import read_chains
from foundation.environment.configuration import SECP256K1_ORDER, Configuration
from foundation.environment.egress_proxy import read_egress_proxy
from foundation.environment.notices import MailServer, read_base_url, read_channels, read_mail_server
from foundation.environment.process_types import secrets_in
from foundation.environment.single_sign_on import read_issuer, read_provider
from foundation.environment.telemetry import read_collector, read_dsn, read_headers
from foundation.environment.thresholds import read_thresholds
from foundation.environment.web_values import read_hosts, read_token
from foundation.kernel.assets import Asset
from foundation.kernel.secrecy import SecretText
from foundation.telemetry import known_secrets
from services.webhooks.url_checks import check_webhook_url

BASE_DIR = Path(__file__).resolve().parent.parent
EMBEDDED = is_embedded()
if EMBEDDED:
    embedded = find_embedded()
    try:
        os.environ.update(embedded.environment())
    except embedded.LocalnetError as error:
        sys.exit(str(error))

configuration = Configuration(process_types())

# --- What must be set, each in the processes that read it: see foundation/environment/process_types.py ---
SECRET_KEY = configuration.text("SECRET_KEY")
SECRET_KEY_FALLBACKS = configuration.secret_texts("SECRET_KEY_FALLBACKS")
DATABASES = {"default": configuration.database("DATABASE_URL"), **configuration.replica("DATABASE_REPLICA_URL")}
_redis = configuration.redis("REDIS_URL")
REDIS_URL = _redis.url
POLICY_SIGNER_ED25519_KEY = configuration.key("POLICY_SIGNER_ED25519_KEY", 32)
POLICY_SIGNER_SECP256K1_KEY = configuration.key("POLICY_SIGNER_SECP256K1_KEY", 32, below=SECP256K1_ORDER)
RELAYER_SEED = configuration.key("RELAYER_SEED", 64)
# Signs webhooks (v1a), and nothing else.
WEBHOOK_SIGNING_KEY = configuration.key("WEBHOOK_SIGNING_KEY", 32)
# Secrets of webhooks are encrypted under this key; the earlier ones still open what they closed.
WEBHOOK_SECRETS_KEY = configuration.key("WEBHOOK_SECRETS_KEY", 32)
CHAINS = read_chains(configuration)
# Only who serves a Solana chain needs it.
POLICY_SIGNER_SOLANA_KEY = configuration.optional_key(
    "POLICY_SIGNER_SOLANA_KEY", 32, is_needed=any(served.chain.vm is Vm.SOLANA for served in CHAINS.values())
)

# --- What may be set --------------------------------------------------------------------------------------------------
configuration.flag("EMBEDDED", default=False)
# Its error pages show the settings and the variables of every frame.
DEBUG = configuration.development("DEBUG", is_embedded=EMBEDDED)
HTTPS = configuration.flag("HTTPS", default=not EMBEDDED)
ALLOWED_HOSTS = configuration.read("ALLOWED_HOSTS", read_hosts, list[str]())
if not ALLOWED_HOSTS and EMBEDDED:
    ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
elif not configuration.optional("ALLOWED_HOSTS").strip(" ,") and configuration.is_read("ALLOWED_HOSTS"):
    configuration.problems.append("ALLOWED_HOSTS is not set.")
# Proxies in front that append their client's address to X-Forwarded-For; 0: the header is not read.
TRUSTED_PROXIES = configuration.count("TRUSTED_PROXIES", default=int(HTTPS), least=0, most=10)
CSRF_TRUSTED_ORIGINS = configuration.texts("CSRF_TRUSTED_ORIGINS")
# Browsers refuse plain http for this whole domain, and keep that in their lists: hardly to be undone.
HSTS_PRELOAD = configuration.flag("HSTS_PRELOAD", default=False)
if HSTS_PRELOAD and not HTTPS:
    configuration.problems.append("HSTS_PRELOAD is set, but HTTPS is false.")
# Warnings of `check --deploy` that the operator has accepted. Two ask for what is the operator's to decide.
SILENCED_SYSTEM_CHECKS = [
    *configuration.silenced_warnings("SILENCED_SYSTEM_CHECKS"),
    *([] if HSTS_PRELOAD else ["security.W005", "security.W021"]),
]
# Public Ed25519 keys (hex) that signed earlier log entries.
RETIRED_RECEIPT_KEYS = configuration.keys("RETIRED_RECEIPT_KEYS")
WEBHOOK_SIGNING_KEY_FALLBACKS = configuration.keys("WEBHOOK_SIGNING_KEY_FALLBACKS")
WEBHOOK_SECRETS_KEY_FALLBACKS = configuration.keys("WEBHOOK_SECRETS_KEY_FALLBACKS")
# Webhooks may go to http:// and to this machine.
WEBHOOKS_ALLOW_PRIVATE = configuration.development("WEBHOOKS_ALLOW_PRIVATE", is_embedded=EMBEDDED)
# What is posted to payees, and notices to channels, leaves through this proxy.
WEBHOOK_PROXY = configuration.read("WEBHOOK_PROXY_URL", read_egress_proxy, None)
# Statements of the money path are planned once per connection. Poolers older than PgBouncer 1.22 lose them.
PREPARED_STATEMENTS = configuration.flag("PREPARED_STATEMENTS", default=True)
RELAYERS_PER_CHAIN = configuration.count("RELAYERS_PER_CHAIN", default=16)
# Nodes keep this many waiting transactions of one sender; more are held back.
MAX_IN_FLIGHT_PER_RELAYER = configuration.count("MAX_IN_FLIGHT_PER_RELAYER", default=16)
# A transaction that is not included after this is replaced with a higher fee, up to the highest.
STUCK_AFTER_S = configuration.count("STUCK_AFTER_S", default=120)
# How long a signature for a payment on an EVM chain is valid; unpaid after it, the payment is signed anew.
# If it is shorter, transactions expire before they are included; if longer, failed payments are credited back late.
PAYMENT_VALIDITY_S = configuration.count("PAYMENT_VALIDITY_S", default=900, least=60, most=3600)
MAX_FEE_GWEI = configuration.count("MAX_FEE_GWEI", default=1000)
# The highest price of a compute unit on Solana.
MAX_PRIORITY_FEE_MICRO_LAMPORTS = configuration.count("MAX_PRIORITY_FEE_MICRO_LAMPORTS", default=5_000_000)
# What one agent's transactions may cost in 24 hours on one chain, in its coin; None: no limit.
GAS_BUDGET_PER_AGENT = configuration.budget("GAS_BUDGET_PER_AGENT")
CHAIN_STATE_MAX_AGE_S = configuration.count("CHAIN_STATE_MAX_AGE_S", default=60)
RATE_LIMIT_PER_MINUTE = configuration.count("RATE_LIMIT_PER_MINUTE", default=1_200)
# Of one agent: refusals are kept for ever, so more of them in a minute are not logged but answered with 429.
REFUSALS_PER_MINUTE = configuration.count("REFUSALS_PER_MINUTE", default=600, most=10_000)
# Payment requests of one process that are decided in one transaction; 1: each by itself.
DECIDE_TOGETHER = configuration.count("DECIDE_TOGETHER", default=32, most=32)
# In units of the asset: signing stops on a chain where more than this is missing. 0: any missing money stops it.
RECONCILE_STOP_ABOVE = configuration.amount("RECONCILE_STOP_ABOVE", default="0")
# What is hard to undo needs a second person in the console.
FOUR_EYES = configuration.flag("FOUR_EYES", default=not EMBEDDED)
# By asset: what single persons may let agents spend all the same, together.
_no_thresholds: Mapping[Asset, Decimal] = {}
FOUR_EYES_ABOVE = configuration.read("FOUR_EYES_ABOVE", read_thresholds, _no_thresholds)
# Who works in the console signs in with a second factor.
TOTP_REQUIRED = configuration.flag("TOTP_REQUIRED", default=not EMBEDDED)
# Staff may sign in with a provider of OpenID Connect.
OIDC_ISSUER = read_issuer(configuration, is_embedded=EMBEDDED)
SOCIALACCOUNT_PROVIDERS = read_provider(configuration, OIDC_ISSUER)
# Who may read /metrics; nobody while it is not set.
METRICS_TOKEN = configuration.read("METRICS_TOKEN", read_token, "")
# Notices of alarms: the address of this console for their links, and who gets them.
CONSOLE_URL = configuration.read("CONSOLE_URL", read_base_url, "")
NOTICE_ROLES = ("finance", "operations", "administrator")
_check_url = partial(check_webhook_url, allow_loopback=WEBHOOKS_ALLOW_PRIVATE)
_nowhere: dict[str, SecretText] = {}
NOTICE_URLS = configuration.read("NOTICE_URLS", partial(read_channels, names=NOTICE_ROLES, check=_check_url), _nowhere)
_mail = configuration.read("EMAIL_URL", read_mail_server, MailServer())
DEFAULT_FROM_EMAIL = SERVER_EMAIL = configuration.optional("DEFAULT_FROM_EMAIL")
if _mail.host and not DEFAULT_FROM_EMAIL:
    configuration.problems.append("DEFAULT_FROM_EMAIL is not set, but EMAIL_URL is.")
# Only `deposit` and `fund_relayers` use it, and only on test networks.
DEPOSIT_KEY = configuration.optional_key("DEPOSIT_KEY", 32, below=SECP256K1_ORDER)
LOG_LEVEL = configuration.choice("LOG_LEVEL", ("info", "debug", "warning", "error", "critical")).upper()
LOG_FORMAT = configuration.choice("LOG_FORMAT", ("plain", "json"))
# A line for each request.
ACCESS_LOG = configuration.flag("ACCESS_LOG", default=False)
# For how long `manage.py archive` leaves in the database what is over; None: it has to be told.
RETENTION_DAYS = configuration.whole_number("RETENTION_DAYS", least=30)
# Where errors are reported, and where the traces of payments go.
SENTRY_DSN = configuration.read("SENTRY_DSN", read_dsn, SecretText())
OTEL_EXPORTER_OTLP_ENDPOINT = configuration.read("OTEL_EXPORTER_OTLP_ENDPOINT", read_collector, "")
OTEL_EXPORTER_OTLP_HEADERS = configuration.read("OTEL_EXPORTER_OTLP_HEADERS", read_headers, _nowhere)
configuration.refuse_unknown_names()
CONFIGURATION_PROBLEMS = configuration.problems
KNOWN_VARIABLES = frozenset(configuration.names)
known_secrets.know(secrets_in(os.environ))
forget_secrets()

# --- Django -----------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "allowance",
    *installed_apps(),
    "operators",
    "backoffice",
    "payments",
    "ledger",
    "policy",
    "services",
    "staff",
    "unfold",  # its templates and forms come before those of the admin
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "axes",
]
MIDDLEWARE = [
    "foundation.api.middleware.answer_headers",
    "allowance.probes.answer_probes",
    "foundation.api.bypass.bypass_console",  # what follows is for the console
    "foundation.console.content_policy.write_content_policy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "foundation.error_pages.give_pages",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "staff.sign_in.sessions.watch_sessions",
    "foundation.console.gate.guard_console",
    "django.contrib.messages.middleware.MessageMiddleware",
    "staff.sign_in.second_factor.require_second_factor",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "foundation.console.reads.PageReads",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "backoffice.alarms.banner.open_alarms",
            ]
        },
    }
]
ROOT_URLCONF = "allowance.urls"
WSGI_APPLICATION = "allowance.wsgi.application"
APPEND_SLASH = False  # both forms of every address answer, without a redirect
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# One connection per thread for the thread's life: a new one costs more than a payment. A cursor of the database's own
# is lost where a pooler gives each transaction another session.
for _database in DATABASES.values():
    _database.update(CONN_MAX_AGE=None, ATOMIC_REQUESTS=False, DISABLE_SERVER_SIDE_CURSORS=True)
DATABASE_ROUTERS = ["foundation.replica.Router"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
# Without a server no e-mail is sent, and the console says so.
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if _mail.host else 'dummy'}.EmailBackend"
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_SSL, EMAIL_USE_TLS = _mail.is_tls, _mail.is_starttls
EMAIL_TIMEOUT = 10
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # static files are served from the packages: nothing to collect on a deployment
# What this process is called in lines, reports and traces.
PROCESS = "+".join(sorted(process_types()))
LOGGING = log_settings(LOG_LEVEL, LOG_FORMAT, PROCESS, has_requests=ACCESS_LOG)

# --- Security of the console ------------------------------------------------------------------------------------------
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_AGE = int(timedelta(hours=12).total_seconds())
SECURE_SSL_REDIRECT = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds()) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HSTS_PRELOAD
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "foundation.error_pages.refuse_forgery"
DEFAULT_EXCEPTION_REPORTER_FILTER = "allowance.debug_report.SecretFilter"

# --- Celery: the rest is in allowance/task_settings.py ------------------------------------------------------------
CELERY_BROKER_URL = _redis.broker_url
CELERY_BROKER_USE_SSL = _redis.broker_ssl
CELERY_BROKER_TRANSPORT_OPTIONS = _redis.broker_options
