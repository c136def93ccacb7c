"""What the console's front page and its list of webhook endpoints tell of all webhooks."""

from django import template

from allowance.kernel.times import utc_now
from services.webhooks.queries import Totals, read_totals

register = template.Library()


@register.simple_tag
def webhook_totals() -> Totals:
    """Count what waits, what failed and what a person has to look at."""
    return read_totals(utc_now())
