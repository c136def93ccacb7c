"""What the console's frame shows: its name, and the pages that each person finds beside the content.

A new page gets its line in `PAGES`: the entry alone knows the pages of all apps. Colours and everything else that is
style stand in static/console/console.css.
"""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Page:
    """A page in the navigation: its title, its icon (a name of Material Symbols), its URL's name.

    Who has one of `permissions` finds it; without any, everybody does. `badge`: a function of the request, as a dotted
    path, that gives the number beside the title, or nothing.
    """

    title: str
    icon: str
    url_name: str
    permissions: tuple[str, ...] = ()
    badge: str = ""


def _rows(title: str, icon: str, model: str) -> Page:
    """Name the list of a model's rows, for who may view them."""
    app, _, name = model.partition(".")
    return Page(title, icon, f"admin:{app}_{name}_changelist", (f"{app}.view_{name}",))


PAGES = {
    "Work": (
        Page("Home", "home", "admin:index", badge="backoffice.home.badge"),
        _rows("Payees", "verified", "services.service"),
        _rows("Payments to approve", "pending_actions", "ledger.hold"),
        Page(
            "Requests",
            "how_to_reg",
            "admin:staff_changerequest_changelist",
            ("staff.view_changerequest",),
            badge="staff.admin.requests.badge",
        ),
        _rows("Alarms", "notifications", "backoffice.alarm"),
        _rows("Audit", "history_edu", "staff.auditentry"),
    ),
    "Agents": (
        _rows("Agents", "smart_toy", "policy.agent"),
        Page("Templates", "rule", "admin:policy_agent_templates", ("policy.view_agent",)),
        _rows("API keys", "key", "policy.apikey"),
    ),
    "Money": (
        _rows("Payments", "payments", "payments.payment"),
        _rows("Decisions", "receipt_long", "ledger.logentry"),
        _rows("Deposits", "south_west", "payments.deposit"),
        _rows("Withdrawals", "north_east", "payments.withdrawal"),
        _rows("Outflows", "output", "payments.outflow"),
        _rows("Reconciliations", "balance", "payments.reconciliation"),
        _rows("Movements", "swap_vert", "ledger.balancemovement"),
    ),
    "Chains": (
        _rows("Settlements", "link", "payments.settlement"),
        _rows("Relayers", "local_gas_station", "payments.relayer"),
        _rows("Chain states", "lan", "payments.chainstate"),
        _rows("Payee states", "account_balance_wallet", "payments.payeestate"),
        _rows("Signer", "draw", "policy.signerswitch"),
    ),
    "Webhooks": (
        _rows("Endpoints", "webhook", "services.webhookendpoint"),
        _rows("Deliveries", "outbox", "services.webhookdelivery"),
        _rows("Attempts", "history", "services.webhookattempt"),
    ),
    "People": (
        _rows("Staff", "group", "auth.user"),
        Page("Roles", "badge", "roles"),
        Page("Notices", "campaign", "backoffice:notices", ("backoffice.view_notice",)),
    ),
}


def find_pages(request: HttpRequest) -> list[dict[str, Any]]:
    """Find the pages for who asks, in their groups, as Unfold's setting `SIDEBAR` takes them."""
    here = _find_page(request.path)
    groups = {
        name: [_item(page, is_here=page is here) for page in pages if _may_see(request, page)]
        for name, pages in PAGES.items()
    }
    return [{"title": name, "items": items} for name, items in groups.items() if items]


def _may_see(request: HttpRequest, page: Page) -> bool:
    return not page.permissions or any(request.user.has_perm(one) for one in page.permissions)


def _find_page(path: str) -> Page | None:
    """Find the page that an address is of: the one whose own address is the longest that it begins with."""
    home = reverse("admin:index")
    addresses = ((reverse(page.url_name), page) for pages in PAGES.values() for page in pages)
    found = [one for one in addresses if path.startswith(one[0]) and (one[0] != home or path == home)]
    return max(found, key=lambda one: len(one[0]), default=(home, None))[1]


def _item(page: Page, *, is_here: bool) -> dict[str, Any]:
    item = {"title": page.title, "icon": page.icon, "link": reverse(page.url_name), "active": is_here}
    return {**item, "badge": page.badge} if page.badge else item


UNFOLD = {
    "SITE_TITLE": "Allowance console",
    "SITE_HEADER": "Allowance",
    "SITE_URL": None,  # there is no site beside the console
    "SHOW_HISTORY": False,  # the audit has it
    "DASHBOARD_CALLBACK": "backoffice.home.dashboard",
    "SIDEBAR": {"navigation": find_pages},
}
