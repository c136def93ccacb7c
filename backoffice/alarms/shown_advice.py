"""What the page of an alarm says about it besides what happened: what it means, what to do, and where."""

from dataclasses import replace

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Max
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from backoffice.alarms.runbooks import runbook_address
from backoffice.findings import find_kind
from backoffice.models import Alarm, Notice, NoticeState
from foundation.findings import Kind

_WORDLESS = ("This release has no words for this kind of alarm.", "Open the page named below.", "console/alarms")


def kind_of(alarm: Alarm) -> Kind:
    """Find the kind of an alarm, with what to say of it."""
    return find_kind(alarm.kind) or Kind(alarm.kind, *_WORDLESS)


def write_links(alarm: Alarm, reader: User | AnonymousUser) -> SafeString:
    """Write links to the pages that help: those that the reader may see, and the runbook."""
    kind = kind_of(alarm)
    links = [("The page that deals with it", alarm.url)] if alarm.url else []
    for page in kind.helps:
        if reader.has_perm(page.permission):
            query = {name: value.format(subject=alarm.subject) for name, value in page.query.items()}
            links.append((page.words, replace(page, query=query).url))
    links.append((f"Runbook: docs/{kind.runbook}.md", runbook_address(kind.runbook)))
    items = format_html_join("", '<li><a href="{}">{}</a></li>', ((url, words) for words, url in links))
    return format_html("<ul>{}</ul>", items)


def say_when_told(alarm: Alarm) -> str:
    """Say when a notice of it was last sent: what waits or failed has told nobody."""
    last = Notice.objects.filter(alarm=alarm, state=NoticeState.SENT).aggregate(at=Max("sent_at"))["at"]
    return f"{last:%Y-%m-%d %H:%M:%S} UTC" if last else "Nobody was sent a notice of it."
