"""Totals of webhooks for the console's front page and its list of webhook endpoints."""

from django import template

from foundation.kernel.times import utc_now
from services.webhooks.queries import Totals, read_totals

register = template.Library()


@register.simple_tag
def webhook_totals() -> Totals:
    """Count deliveries that wait or failed, and endpoints that need attention."""
    return read_totals(utc_now())
