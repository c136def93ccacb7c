"""A variable's name that resembles one of ours and that nothing reads is refused as a mistake."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

# No platform and no other program has variables with these beginnings. They may have DATABASE_, REDIS_, HTTPS_, LOG_.
_OURS = re.compile(
    "ALLOWANCE_UR|ALLOWED_HOST|CHAINS?_|CONSOLE_URL|CSRF_TRUSTED|DEFAULT_FROM_|DEPLOYER_|DEPOSIT_|EMAIL_UR|EMBEDDED|GAS_BUDGET|"
    "HSTS_|MCP_(ALLOWED|CONC)|MAX_(FEE|IN_FLIGHT|PRIORITY)|METRICS_TOK|NOTICE_|OIDC_(CLIENT|ISSUER)|OLD_(POLICY|RELAYER)|PAYMENTS?_|"
    "POLICY_SIGNER|RATE_LIMIT|RECONCILE|REFUSALS|RELAYER|RETIRED_|SECRET_KEY|SILENCED_|STUCK_|TRUSTED_PROX|WEBHOOK(?!_SECRET$)|"
    "WORKER_CONC"
)
# Celery reads these itself, and they would override the settings.
_OF_CELERY = re.compile("CELERY_(BROKER|CONFIG_MODULE|LOADER|RESULT_BACKEND|SKIP_CHECKS)")
# Kubernetes and Docker's links tell every process of each service beside it by such names: of `webhooks`, say.
_OF_PLATFORMS = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?|NAME|ENV_\w+)")


def find_unknown(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Report each name that begins like ours and that nothing reads, with the name that is probably meant."""
    known = sorted(known)
    names = sorted(names)
    ours = (name for name in names if _OURS.match(name.upper()) and not _OF_PLATFORMS.fullmatch(name))
    return [
        *(f"{name} means nothing here.{_suggestion(name, known)}" for name in ours if name not in known),
        *(f"{name} must not be set: Celery's broker is REDIS_URL." for name in names if _OF_CELERY.match(name)),
    ]


def _suggestion(name: str, known: list[str]) -> str:
    close = get_close_matches(name.upper(), known, n=1, cutoff=0.8)
    return f" Is {close[0]} meant?" if close else " See docs/operate/settings.md."
