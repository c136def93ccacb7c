"""The page that ranks all agents or payees of an asset by what they spent or were paid, over some days."""

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse

from backoffice.pictures import DAYS, first_day
from backoffice.rankings import KINDS, address_of, rank_all
from foundation.console.views import show_page, staff_page
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now

PERIODS = (1, 7, DAYS, 90)
PER_PAGE = 100


@staff_page("ledger.view_logentry")
def spending(request: HttpRequest, name: str) -> HttpResponse:
    """Show all of one kind, those of most spend first."""
    if name not in KINDS:
        raise Http404
    asked, days = request.GET.get("asset", Asset.USDC), request.GET.get("days", f"{DAYS}")
    asset = asked if asked in Asset.__members__ else Asset.USDC.value
    period = int(days) if days in map(str, PERIODS) else DAYS
    today = utc_now().date()
    ranking = rank_all(name, asset, today, period)
    return show_page(
        request,
        "console/spending.html",
        title=KINDS[name].title,
        column=KINDS[name].column,
        ranking=ranking,
        page=Paginator(ranking.lines if ranking else (), PER_PAGE).get_page(request.GET.get("p")),
        here={"asset": asset, "days": period},
        since=first_day(today, period),
        kinds=[(other, KINDS[other].title, address_of(other, asset, period), other == name) for other in KINDS],
        assets=[(one.value, address_of(name, one, period), one == asset) for one in Asset],
        periods=[(one, address_of(name, asset, one), one == period) for one in PERIODS],
    )
