"""The front page's own content."""

from typing import Any

from django import template

from backoffice.home import dashboard

register = template.Library()


@register.simple_tag(takes_context=True)
def read_home(context: dict[str, Any]) -> dict[str, Any]:
    """Read what the front page shows to its reader."""
    return dashboard(context["request"], {})
