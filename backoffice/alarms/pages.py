"""The console's page of notices: who is told over which channel, what was sent lately, and a test of each."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from backoffice.alarms.channels import GROUPS, recipients_of
from backoffice.alarms.operations import try_channels
from backoffice.alarms.sending import MOST_PER_HOUR
from backoffice.models import Notice, NoticeState
from foundation.console.views import show_page, staff_page
from foundation.kernel.errors import OperationRefused
from foundation.mail import sends_mail
from services.webhooks.url_checks import host_of

_MOST_SHOWN = 50


@staff_page("backoffice.view_notice")
def notices(request: HttpRequest) -> HttpResponse:
    """Show the notices; a form that is sent here tests the channels of a role."""
    if request.method == "POST":
        if not request.user.has_perm("backoffice.change_notice"):
            raise PermissionDenied
        return _test(request)
    lately = Notice.objects.order_by("-id")[:_MOST_SHOWN]
    return show_page(
        request,
        "console/notices.html",
        title="Notices",
        roles=[_role(role, group) for role, group in GROUPS.items()],
        sends_mail=sends_mail(),
        console_url=settings.CONSOLE_URL,
        most_per_hour=MOST_PER_HOUR,
        notices=lately,
        failed=Notice.objects.filter(state=NoticeState.FAILED).order_by("-id")[:_MOST_SHOWN],
    )


def _role(role: str, group: str) -> dict[str, Any]:
    url = settings.NOTICE_URLS.get(role)
    return {"role": role, "name": group, "recipients": recipients_of(role), "host": host_of(url)}


def _test(request: HttpRequest) -> HttpResponse:
    role = request.POST.get("role", "")
    try:
        sent = try_channels(role, by=request.user.get_username())
    except OperationRefused as refusal:
        messages.error(request, str(refusal))
    else:
        ways = " and ".join("by e-mail" if notice.channel == "email" else "to the URL" for notice in sent)
        messages.success(
            request, f"A test goes to {GROUPS[role]} {ways}. What became of it stands below in some seconds."
        )
    return HttpResponseRedirect(reverse("backoffice:notices"))
