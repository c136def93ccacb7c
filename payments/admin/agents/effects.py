"""What other limits would have decided otherwise, in words and in a picture."""

from collections.abc import Iterator
from datetime import UTC, date, timedelta
from typing import Any

from django.http import HttpRequest

from foundation.console.links import list_page
from foundation.console.pictures import Cell, Chart, Picture
from ledger.preview import Preview, Share
from policy.rules import words_of_refusal

_MOST_DRAWN = 90
_REFUSED, _LET_THROUGH = "Refused, though they were approved", "Let through, though they were refused"
_LOG = "ledger.view_logentry"


def show_effect(request: HttpRequest, agent_id: str, effect: Preview) -> dict[str, Any]:
    """Give what `console/agents/effect.html` needs."""
    picture = _draw(agent_id, effect, is_linked=request.user.has_perm(_LOG))
    return {"effect": effect, "shares": list(_put_into_words(effect)), "picture": picture}


def _put_into_words(effect: Preview) -> Iterator[dict[str, Any]]:
    """Put what would have come out differently into words, by rule."""
    for title, share, is_refused in ((_REFUSED, effect.refused, True), (_LET_THROUGH, effect.let_through, False)):
        yield {
            "title": title,
            "share": share,
            "rules": [
                (words_of_refusal(name).refused, count, share.total_by_rule[name])
                for name, count in share.by_rule.most_common()
            ],
            "rows": [
                (one, words_of_refusal(one.rule if is_refused else one.past.rule).refused) for one in share.newest
            ],
        }


def _draw(agent_id: str, effect: Preview, *, is_linked: bool) -> Picture | None:
    """Draw how many decisions of each day would have come out otherwise; None: there are none."""
    if not effect.otherwise:
        return None
    last = max(effect.until.astimezone(UTC).date(), *effect.refused.by_day, *effect.let_through.by_day)
    first = max(effect.since.astimezone(UTC).date(), last - timedelta(days=_MOST_DRAWN - 1))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    links = [_decisions(agent_id, day) if is_linked else "" for day in days]
    shares = (effect.refused, effect.let_through)
    drawn = (("refused", _REFUSED, effect.refused), ("let-through", _LET_THROUGH, effect.let_through))
    return Picture(
        "otherwise",
        "Decided otherwise, per day",
        [_chart(name, title, share, days, links) for name, title, share in drawn],
        ("Day", _REFUSED, _LET_THROUGH),
        [
            (Cell(f"{day}"), *(Cell(f"{share.by_day[day]:,}", link if share.by_day[day] else "") for share in shares))
            for day, link in zip(reversed(days), reversed(links), strict=True)
            if any(share.by_day[day] for share in shares)
        ],
    )


def _chart(name: str, title: str, share: Share, days: list[date], links: list[str]) -> Chart:
    labels = [f"{day:%b} {day.day}" for day in days]
    return Chart(f"otherwise-{name}", title, labels, [share.by_day[day] for day in days], links)


def _decisions(agent_id: str, day: date) -> str:
    return list_page("ledger_logentry", agent=agent_id, since=f"{day}", until=f"{day}")
