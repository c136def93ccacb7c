"""The pages of what the audit and the requests are about."""

from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse

_PAGES = {
    "agent": "policy_agent_change",
    "policy": "policy_agent_change",
    "shadow": "policy_agent_shadow",
    "api_key": "policy_apikey_change",
    "service": "services_service_change",
    "webhook": "services_webhookendpoint_change",
    "delivery": "services_webhookdelivery_change",
    "deposit": "payments_deposit_change",
    "outflow": "payments_outflow_change",
    "payment": "ledger_hold_change",  # staff change none that nobody has to approve
    "chain": "payments_chainstate_change",
    "request": "staff_changerequest_change",
}
# They are found in lists, by their ids.
_LISTS = {"withdrawal": "payments_withdrawal_changelist"}
_SINGLE = {"signer": "policy_signerswitch_changelist", "template": "policy_agent_templates"}


def link_to(subject_type: str, subject: str) -> str:
    """Give the address of a subject's page; "": it has none."""
    try:
        if (page := _PAGES.get(subject_type)) is not None:
            return reverse(f"admin:{page}", args=[quote(subject)])
        if (rows := _LISTS.get(subject_type)) is not None:
            return f"{reverse(f'admin:{rows}')}?{urlencode({'q': subject})}"
        single = _SINGLE.get(subject_type)
        return reverse(f"admin:{single}") if single else ""
    except NoReverseMatch:
        return ""
