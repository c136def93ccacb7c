"""Settings, from the environment only. docs/operate/settings.md has the table of variables."""

import os
from datetime import timedelta
from functools import partial
from pathlib import Path

from kombu import Queue

from allowance.boot import forget_secrets, is_embedded, process_types
from allowance.chain_settings import read_chains
from allowance.console.look import UNFOLD as UNFOLD  # noqa: PLC0414 - a setting of its own module
from allowance.environment.configuration import SECP256K1_ORDER, Configuration
from allowance.environment.notices import MailServer, read_base_url, read_channels, read_mail_server
from allowance.environment.single_sign_on import read_issuer, read_provider
from allowance.kernel.secrecy import SecretText
from allowance.sign_in_settings import *  # noqa: F403 - what django-allauth and django-axes read
from chains.catalogue import Vm
from services.webhooks.url_checks import check_webhook_url

BASE_DIR = Path(__file__).resolve().parent.parent
EMBEDDED = is_embedded()
if EMBEDDED:
    from allowance import embedded

    os.environ.update(embedded.environment())

configuration = Configuration(process_types())

# --- What must be set, each in the processes that read it: see allowance/environment/process_types.py ---
SECRET_KEY = configuration.text("SECRET_KEY")
SECRET_KEY_FALLBACKS = configuration.secret_texts("SECRET_KEY_FALLBACKS")
DATABASES = {"default": configuration.database("DATABASE_URL"), **configuration.replica("DATABASE_REPLICA_URL")}
_redis = configuration.redis("REDIS_URL")
REDIS_URL = _redis.url
POLICY_SIGNER_ED25519_KEY = configuration.key("POLICY_SIGNER_ED25519_KEY", 32)
POLICY_SIGNER_SECP256K1_KEY = configuration.key("POLICY_SIGNER_SECP256K1_KEY", 32, below=SECP256K1_ORDER)
RELAYER_SEED = configuration.key("RELAYER_SEED", 64)
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
ALLOWED_HOSTS = configuration.texts("ALLOWED_HOSTS")
if not ALLOWED_HOSTS and EMBEDDED:
    ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
elif not ALLOWED_HOSTS and configuration.is_read("ALLOWED_HOSTS"):
    configuration.problems.append("ALLOWED_HOSTS is not set.")
# Proxies in front that append their client's address to X-Forwarded-For; 0: the header is not read.
TRUSTED_PROXIES = configuration.count("TRUSTED_PROXIES", default=int(HTTPS), least=0, most=10)
CSRF_TRUSTED_ORIGINS = configuration.texts("CSRF_TRUSTED_ORIGINS")
# Warnings of `check --deploy` that the operator has accepted.
SILENCED_SYSTEM_CHECKS = configuration.silenced_warnings("SILENCED_SYSTEM_CHECKS")
# Public Ed25519 keys (hex) that signed earlier log entries.
RETIRED_RECEIPT_KEYS = configuration.keys("RETIRED_RECEIPT_KEYS")
WEBHOOK_SECRETS_KEY_FALLBACKS = configuration.keys("WEBHOOK_SECRETS_KEY_FALLBACKS")
# Webhooks may go to http:// and to this machine.
WEBHOOKS_ALLOW_PRIVATE = configuration.development("WEBHOOKS_ALLOW_PRIVATE", is_embedded=EMBEDDED)
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
# Who works in the console signs in with a second factor.
TOTP_REQUIRED = configuration.flag("TOTP_REQUIRED", default=not EMBEDDED)
# Staff may sign in with a provider of OpenID Connect.
OIDC_ISSUER = read_issuer(configuration, is_embedded=EMBEDDED)
SOCIALACCOUNT_PROVIDERS = read_provider(configuration, OIDC_ISSUER)
# Who may read /metrics; nobody while it is not set.
METRICS_TOKEN = SecretText(configuration.optional("METRICS_TOKEN"))
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
# Only `manage.py deposit` uses it, and only on test networks.
DEPOSIT_KEY = configuration.optional_key("DEPOSIT_KEY", 32, below=SECP256K1_ORDER)
LOG_LEVEL = configuration.optional("LOG_LEVEL") or "INFO"
configuration.refuse_unknown_names()
CONFIGURATION_PROBLEMS = configuration.problems
forget_secrets()

# --- Django -----------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "allowance",
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
    "allowance.api.middleware.answer_headers",
    "allowance.probes.answer_probes",
    "allowance.api.bypass.bypass_console",  # what follows is for the console
    "allowance.console.content_policy.write_content_policy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "allowance.error_pages.give_pages",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "staff.sign_in.sessions.watch_sessions",
    "allowance.console.gate.guard_console",
    "django.contrib.messages.middleware.MessageMiddleware",
    "staff.sign_in.second_factor.require_second_factor",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allowance.console.reads.PageReads",
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
DATABASE_ROUTERS = ["allowance.replica.Router"]
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
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    # Refusals are answers, not events: the decision log has them.
    "loggers": {"django.request": {"level": "ERROR"}, "django.security.DisallowedHost": {"level": "CRITICAL"}},
}

# --- Security of the console ------------------------------------------------------------------------------------------
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_AGE = int(timedelta(hours=12).total_seconds())
SECURE_SSL_REDIRECT = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds()) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "allowance.error_pages.refuse_forgery"
DEFAULT_EXCEPTION_REPORTER_FILTER = "allowance.debug_report.SecretFilter"

# --- The API ----------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["policy.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["policy.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "allowance.api.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Allowance",
    "DESCRIPTION": "Pre-funded, policy-checked budgets for software agents that pay. Amounts are decimal strings. "
    "Every address answers with and without a trailing slash, every refusal has one shape, and unless it says so, "
    "no answer may be cached (`Cache-Control: no-store`). To `OPTIONS` each of them answers 204 and, in `Allow`, its "
    "methods; no key is needed. What the server cannot read as HTTP, or headers of more than 32 KiB, it refuses by "
    "itself: 400 or 431, without a body.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "PREPROCESSING_HOOKS": ["allowance.api_document.clean_paths"],
    "POSTPROCESSING_HOOKS": ["allowance.api_document.complete"],
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # By default the page sends the document's address to a validator on the internet.
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
}

# --- Celery: tasks and their schedule ---------------------------------------------------------------------------------
CELERY_BROKER_URL = _redis.broker_url
CELERY_BROKER_USE_SSL = _redis.broker_ssl
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 2}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# Webhooks wait for receivers: they have a queue of their own, which a worker of its own can serve. A worker without
# `--queues` serves both, and gives one of its processes to webhooks.
CELERY_TASK_QUEUES = [Queue("celery", routing_key="celery"), Queue("webhooks", routing_key="webhooks")]
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_ROUTES = {"services.tasks.*": {"queue": "webhooks"}}
CELERY_TIMEZONE = "UTC"
# No step takes this long unless a node answers byte by byte: the next worker takes over.
CELERY_TASK_TIME_LIMIT = 300
CELERY_BEAT_SCHEDULER = "allowance.beat.Scheduler"
# A task that no worker takes in time expires: the next one does the same.
CELERY_BEAT_SCHEDULE = {
    f"{task} on every chain": {
        "task": "payments.tasks.on_every_chain",
        "args": (f"payments.tasks.{task}",),
        "schedule": seconds,
        "options": {"expires": 3},
    }
    for task, seconds in {"sweep_payments": 1, "observe_chain": 5, "watch_deposits": 5, "reconcile_chain": 60}.items()
}
CELERY_BEAT_SCHEDULE["check_books"] = {"task": "payments.tasks.check_books", "schedule": 60, "options": {"expires": 3}}
CELERY_BEAT_SCHEDULE["roll_up"] = {"task": "backoffice.tasks.roll_up", "schedule": 60, "options": {"expires": 30}}
# An alarm is raised within a minute of what caused it, and told at once.
CELERY_BEAT_SCHEDULE["look_for_alarms"] = {
    "task": "backoffice.tasks.look_for_alarms",
    "schedule": 20,
    "options": {"expires": 15},
}
CELERY_BEAT_SCHEDULE["send_notices"] = {
    "task": "backoffice.tasks.send_notices",
    "schedule": 10,
    "options": {"expires": 8},
}
CELERY_BEAT_SCHEDULE["deliver_webhooks"] = {
    "task": "services.tasks.deliver_webhooks",
    "schedule": 1,
    "options": {"expires": 3},
}
