"""What the page of an alarm says about it besides what happened: what it means, what to do, and where."""

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Max
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from backoffice.alarms.advice import Advice, advice_on
from backoffice.alarms.runbooks import runbook_address
from backoffice.models import Alarm, Notice, NoticeState
from backoffice.queue.items import list_page

_UNKNOWN = Advice("This release has no words for this kind of alarm.", "Open the page named below.", "console/alarms")


def find_advice(alarm: Alarm) -> Advice:
    """Find what to say of an alarm."""
    return advice_on(alarm.kind, alarm.sentence) or _UNKNOWN


def write_links(alarm: Alarm, reader: User | AnonymousUser) -> SafeString:
    """Write links to the pages that help: those that the reader may see, and the runbook."""
    advice = find_advice(alarm)
    links = [("The page that deals with it", alarm.url)] if alarm.url else []
    for page in advice.pages:
        app, _, model = page.name.partition("_")
        query = {name: value.format(subject=alarm.subject) for name, value in page.query.items()}
        if reader.has_perm(f"{app}.view_{model}"):
            links.append((page.words, list_page(page.name, **query)))
    links.append((f"Runbook: docs/{advice.runbook}.md", runbook_address(advice.runbook)))
    items = format_html_join("", '<li><a href="{}">{}</a></li>', ((url, words) for words, url in links))
    return format_html("<ul>{}</ul>", items)


def say_when_told(alarm: Alarm) -> str:
    """Say when a notice of it was last sent: what waits or failed has told nobody."""
    last = Notice.objects.filter(alarm=alarm, state=NoticeState.SENT).aggregate(at=Max("sent_at"))["at"]
    return f"{last:%Y-%m-%d %H:%M:%S} UTC" if last else "Nobody was sent a notice of it."
