"""The pages of which the documents have pictures: each an address, and what is clicked on from there.

A picture is `docs/images/console/<name>-<light|dark>-<desktop|phone>.webp`; docs/console/look.md shows them.
"""

_FIRST_ROW = "#result_list tbody th a"

PAGES: dict[str, tuple[str, ...]] = {
    "sign-in": ("/console/login/",),
    "home": ("/console/",),
    "approvals": ("/console/services/service/",),
    "approval": ("/console/services/service/?status__exact=pending_approval", _FIRST_ROW),
    "holds": ("/console/ledger/hold/",),
    "hold": ("/console/ledger/hold/", _FIRST_ROW),
    "agents": ("/console/policy/agent/",),
    "agent": ("/console/policy/agent/agent-research-1/change/",),
    "tree": ("/console/policy/agent/agent-research/tree/",),
    "policy": ("/console/policy/agent/agent-research-1/policy/",),
    "fund": ("/console/policy/agent/agent-research-1/fund/",),
    "pause": ("/console/policy/agent/agent-research-1/change/", ".heading button:has-text('Pause')"),
    "payments": ("/console/payments/payment/",),
    "payment": ("/console/payments/payment/", _FIRST_ROW),
    "transaction": (
        "/console/payments/settlement/",
        "#result_list tbody tr:not(:has(.field-num_carried:text-is('1'))) th a",
    ),
    "log": ("/console/ledger/logentry/",),
    "search": ("/console/search/?q=agent-research",),
    "keys": ("/console/policy/apikey/",),
    "reconciliations": ("/console/payments/reconciliation/",),
    "alarms": ("/console/backoffice/alarm/",),
    "audit": ("/console/staff/auditentry/",),
    "staff": ("/console/auth/user/",),
    "roles": ("/console/roles/",),
}
