"""What other limits would have decided otherwise, in words and in a picture."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, timedelta
from typing import Any

from django.http import HttpRequest

from foundation.console.links import list_page
from foundation.console.pictures import Cell, Chart, Picture
from ledger.preview import Preview, Share
from policy.rules import words_of_refusal

_MOST_DRAWN = 90
_REFUSED, _LET_THROUGH = "Refused, though they were approved", "Let through, though they were refused"
_HELD, _UNASKED = "Held for a person, though nobody was asked", "Approved by a person, whom nobody would ask"
_LOG = "ledger.view_logentry"


def show_effect(request: HttpRequest, agent_id: str, effect: Preview) -> dict[str, Any]:
    """Give what `console/agents/effect.html` needs."""
    picture = _draw(agent_id, effect, is_linked=request.user.has_perm(_LOG))
    return {"effect": effect, "shares": list(_put_into_words(effect)), "picture": picture}


def _put_into_words(effect: Preview) -> Iterator[dict[str, Any]]:
    """Put what would have come out differently into words, by rule; nobody is told of a person whom nobody asks."""
    yield _in_words(_REFUSED, effect.refused, [one.rule for one in effect.refused.newest])
    yield _in_words(_LET_THROUGH, effect.let_through, [one.past.rule for one in effect.let_through.newest])
    if effect.held.count:
        yield _in_words(_HELD, effect.held, [str(one.held_by) for one in effect.held.newest])
    if effect.unasked.count:
        yield _in_words(_UNASKED, effect.unasked, [one.rule for one in effect.unasked.newest])


def _in_words(title: str, share: Share, rules: Sequence[str]) -> dict[str, Any]:
    return {
        "title": title,
        "share": share,
        "has_payers": any(one.past.payer for one in share.newest),
        "rules": [
            (words_of_refusal(name).refused, count, share.total_by_rule[name])
            for name, count in share.by_rule.most_common()
        ],
        "rows": [(one, words_of_refusal(rule).refused) for one, rule in zip(share.newest, rules, strict=True)],
    }


def _draw(agent_id: str, effect: Preview, *, is_linked: bool) -> Picture | None:
    """Draw how many decisions of each day would have come out otherwise; None: there are none."""
    if not effect.otherwise:
        return None
    last = max(effect.until.astimezone(UTC).date(), *(day for share in effect.shares for day in share.by_day))
    first = max(effect.since.astimezone(UTC).date(), last - timedelta(days=_MOST_DRAWN - 1))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    links = [_decisions(agent_id, day) if is_linked else "" for day in days]
    titles = (("refused", _REFUSED), ("let-through", _LET_THROUGH), ("held", _HELD), ("unasked", _UNASKED))
    # Where nobody is asked, there is no column of that.
    drawn = [(*of, share) for of, share in zip(titles, effect.shares, strict=True) if share.count or of in titles[:2]]
    return Picture(
        "otherwise",
        "Decided otherwise, per day",
        [_chart(name, title, share, days, links) for name, title, share in drawn],
        ("Day", *(title for _, title, _ in drawn)),
        [
            (Cell(f"{day}"), *(_cell(share.by_day[day], link) for _, _, share in drawn))
            for day, link in zip(reversed(days), reversed(links), strict=True)
            if any(share.by_day[day] for share in effect.shares)
        ],
    )


def _cell(count: int, link: str) -> Cell:
    return Cell(f"{count:,}", link if count else "")


def _chart(name: str, title: str, share: Share, days: list[date], links: list[str]) -> Chart:
    labels = [f"{day:%b} {day.day}" for day in days]
    return Chart(f"otherwise-{name}", title, labels, [share.by_day[day] for day in days], links)


def _decisions(agent_id: str, day: date) -> str:
    return list_page("ledger_logentry", agent=agent_id, since=f"{day}", until=f"{day}")
