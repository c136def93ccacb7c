"""Settings, from the environment only: `foundation/environment/table.py` is the table of variables."""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from allowance.api_settings import REST_FRAMEWORK as REST_FRAMEWORK  # noqa: PLC0414 - a setting of its own module
from allowance.api_settings import SPECTACULAR_SETTINGS as SPECTACULAR_SETTINGS  # noqa: PLC0414 - as above
from allowance.boot import find_embedded, forget_secrets, installed_apps, is_embedded, process_types
from allowance.log_settings import LOGGING_CONFIG as LOGGING_CONFIG  # noqa: PLC0414 - a setting of its own module
from allowance.log_settings import log_settings
from allowance.navigation import UNFOLD as UNFOLD  # noqa: PLC0414 - a setting of its own module
from allowance.task_settings import task_settings
from chains.catalogue import Vm
from chains.chain_settings import KNOWN, read_chains
from foundation.environment.configuration import Configuration
from foundation.environment.connections import POSTGRESQL
from foundation.environment.egress_proxy import EgressProxy
from foundation.environment.notices import NOTICE_ROLES, MailServer, read_channels
from foundation.environment.redis_addresses import Redis
from foundation.environment.single_sign_on import read_issuer, read_provider
from foundation.environment.table import is_secret
from foundation.environment.telemetry import read_collector, read_dsn, with_package
from foundation.kernel.assets import Asset
from foundation.kernel.secrecy import Secret, SecretText
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
read = configuration.read

# --- Read by foundation/environment/table.py, which says what each means ----------------------------------------------
read("EMBEDDED")
SECRET_KEY: str = read("SECRET_KEY") or ""
SECRET_KEY_FALLBACKS: list[str] = read("SECRET_KEY_FALLBACKS")
DATABASES: dict[str, dict[str, Any]] = {"default": read("DATABASE_URL") or {"ENGINE": POSTGRESQL}}
if _replica := read("DATABASE_REPLICA_URL"):
    DATABASES["replica"] = _replica
_redis: Redis = read("REDIS_URL") or Redis("", "")
REDIS_URL = _redis.url
POLICY_SIGNER_ED25519_KEY: Secret | None = read("POLICY_SIGNER_ED25519_KEY")
POLICY_SIGNER_SECP256K1_KEY: Secret | None = read("POLICY_SIGNER_SECP256K1_KEY")
RELAYER_SEED: Secret | None = read("RELAYER_SEED")
WEBHOOK_SIGNING_KEY: Secret | None = read("WEBHOOK_SIGNING_KEY")
WEBHOOK_SECRETS_KEY: Secret | None = read("WEBHOOK_SECRETS_KEY")
CHAINS = read_chains(configuration)
_serves_solana = any(served.chain.vm is Vm.SOLANA for served in CHAINS.values())
POLICY_SIGNER_SOLANA_KEY: Secret | None = read("POLICY_SIGNER_SOLANA_KEY", is_needed=_serves_solana)
RETIRED_RECEIPT_KEYS: list[Secret] = read("RETIRED_RECEIPT_KEYS")
WEBHOOK_SIGNING_KEY_FALLBACKS: list[Secret] = read("WEBHOOK_SIGNING_KEY_FALLBACKS")
WEBHOOK_SECRETS_KEY_FALLBACKS: list[Secret] = read("WEBHOOK_SECRETS_KEY_FALLBACKS")
_but_on_this_machine = str(not EMBEDDED)
DEBUG = configuration.read_switch("DEBUG", is_embedded=EMBEDDED)
HTTPS: bool = read("HTTPS", default=_but_on_this_machine)
ALLOWED_HOSTS: list[str] = read("ALLOWED_HOSTS", is_needed=not EMBEDDED) or []
if EMBEDDED and not ALLOWED_HOSTS:
    ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
TRUSTED_PROXIES: int = read("TRUSTED_PROXIES", default=str(int(HTTPS)))
CSRF_TRUSTED_ORIGINS: list[str] = read("CSRF_TRUSTED_ORIGINS")
HSTS_PRELOAD: bool = read("HSTS_PRELOAD")
if HSTS_PRELOAD and not HTTPS:
    configuration.problems.append("HSTS_PRELOAD is set, but HTTPS is false.")
# Two warnings ask for what is the operator's to decide.
SILENCED_SYSTEM_CHECKS: list[str] = [
    *read("SILENCED_SYSTEM_CHECKS"),
    *([] if HSTS_PRELOAD else ["security.W005", "security.W021"]),
]
WEBHOOKS_ALLOW_PRIVATE = configuration.read_switch("WEBHOOKS_ALLOW_PRIVATE", is_embedded=EMBEDDED)
WEBHOOK_PROXY: EgressProxy | None = read("WEBHOOK_PROXY_URL")
PREPARED_STATEMENTS: bool = read("PREPARED_STATEMENTS")
RELAYERS_PER_CHAIN: int = read("RELAYERS_PER_CHAIN")
MAX_IN_FLIGHT_PER_RELAYER: int = read("MAX_IN_FLIGHT_PER_RELAYER")
STUCK_AFTER_S: int = read("STUCK_AFTER_S")
PAYMENT_VALIDITY_S: int = read("PAYMENT_VALIDITY_S")
MAX_FEE_GWEI: int = read("MAX_FEE_GWEI")
MAX_PRIORITY_FEE_MICRO_LAMPORTS: int = read("MAX_PRIORITY_FEE_MICRO_LAMPORTS")
GAS_BUDGET_PER_AGENT: Decimal | None = read("GAS_BUDGET_PER_AGENT")
CHAIN_STATE_MAX_AGE_S: int = read("CHAIN_STATE_MAX_AGE_S")
RATE_LIMIT_PER_MINUTE: int = read("RATE_LIMIT_PER_MINUTE")
REFUSALS_PER_MINUTE: int = read("REFUSALS_PER_MINUTE")
DECIDE_TOGETHER: int = read("DECIDE_TOGETHER")
SETTLE_WITHIN_MS: int = read("SETTLE_WITHIN_MS")
RECONCILE_STOP_ABOVE: Decimal = read("RECONCILE_STOP_ABOVE")
FOUR_EYES: bool = read("FOUR_EYES", default=_but_on_this_machine)
FOUR_EYES_ABOVE: Mapping[Asset, Decimal] = read("FOUR_EYES_ABOVE") or {}
TOTP_REQUIRED: bool = read("TOTP_REQUIRED", default=_but_on_this_machine)
OIDC_ISSUER = read_issuer(configuration, is_embedded=EMBEDDED)
SOCIALACCOUNT_PROVIDERS = read_provider(configuration, OIDC_ISSUER)
METRICS_TOKEN: str = read("METRICS_TOKEN") or ""
CONSOLE_URL: str = read("CONSOLE_URL") or ""
_check_url = partial(check_webhook_url, allow_loopback=WEBHOOKS_ALLOW_PRIVATE)
NOTICE_URLS: dict[str, SecretText] = read(
    "NOTICE_URLS", cast=partial(read_channels, names=NOTICE_ROLES, check=_check_url)
)
_mail: MailServer = read("EMAIL_URL") or MailServer()
DEFAULT_FROM_EMAIL: str = read("DEFAULT_FROM_EMAIL") or ""
SERVER_EMAIL = DEFAULT_FROM_EMAIL
if _mail.host and not DEFAULT_FROM_EMAIL:
    configuration.problems.append("DEFAULT_FROM_EMAIL is not set, but EMAIL_URL is.")
LOG_LEVEL: str = read("LOG_LEVEL").upper()
LOG_FORMAT: str = read("LOG_FORMAT")
ACCESS_LOG: bool = read("ACCESS_LOG")
RETENTION_DAYS: int | None = read("RETENTION_DAYS")
SENTRY_DSN: str = read("SENTRY_DSN", cast=with_package("sentry_sdk", read_dsn)) or ""
OTEL_EXPORTER_OTLP_ENDPOINT: str = (
    read("OTEL_EXPORTER_OTLP_ENDPOINT", cast=with_package("opentelemetry.exporter.otlp.proto.http", read_collector))
    or ""
)
OTEL_EXPORTER_OTLP_HEADERS: dict[str, SecretText] = read("OTEL_EXPORTER_OTLP_HEADERS") or {}
configuration.refuse_unknown_names(KNOWN)
CONFIGURATION_PROBLEMS = configuration.problems
known_secrets.know(value for name, value in os.environ.items() if is_secret(name))
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
    "allowance.admin_site.ConsoleConfig",
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

# --- Sign-in: django-allauth and django-axes --------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "staff.sign_in.backends.StaffBackend"]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "admin:index"

# --- Accounts: made by an Administrator, never by whoever comes along -------------------------------------------------
ACCOUNT_ADAPTER = "staff.sign_in.adapters.AccountAdapter"
ACCOUNT_FORMS = {"login": "staff.sign_in.forms.LoginForm", "change_password": "staff.sign_in.forms.ChangePasswordForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
# A cookie that ends with the browser; `staff.sign_in.sessions` ends the session itself.
ACCOUNT_SESSION_REMEMBER = False
# How long the code may be asked for after the password.
ACCOUNT_LOGIN_TIMEOUT = int(timedelta(minutes=5).total_seconds())
# allauth counts in a cache of one process: `staff.sign_in.throttling` counts in the database, for all.
ACCOUNT_RATE_LIMITS = False
PASSWORD_RESET_TIMEOUT = int(timedelta(days=1).total_seconds())

# --- The second factor ------------------------------------------------------------------------------------------------
MFA_ADAPTER = "staff.sign_in.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "authenticate": "staff.sign_in.forms.CodeForm",
    "activate_totp": "staff.sign_in.forms.FirstCodeForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Allowance"
# A step of 30 s before and after: clocks differ. `staff.sign_in.codes` takes each code once, and none before it.
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_RATE_LIMITS = False
# `staff.reauthentication` asks instead, everywhere by the same rule.
MFA_REAUTHENTICATION_REQUIRED = False

# --- Throttling: `staff.sign_in.throttling` has the limits ------------------------------------------------------------
AXES_HANDLER = "staff.sign_in.throttling.Throttle"
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "staff.sign_in.throttling.network_of"
AXES_LOCKOUT_CALLABLE = "staff.sign_in.throttling.answer_locked_out"
AXES_ENABLE_ADMIN = False
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_VERBOSE = False

# --- Single sign-on ---------------------------------------------------------------------------------------------------
SOCIALACCOUNT_ADAPTER = "staff.sign_in.single_sign_on.SingleSignOnAdapter"
SOCIALACCOUNT_AUTO_SIGNUP = False

# --- Celery -----------------------------------------------------------------------------------------------------------
CELERY = task_settings(_redis)
