"""What the navigation marks: the page that is open, and no other."""

import re

import pytest
from django.urls import reverse

from tests.foundation.console.conftest import address
from tests.foundation.console.test_templates import template as template  # noqa: PLC0414 - a fixture
from tests.support.factories import make_agent


def marked(person, url):
    page = person.client.get(url)
    assert page.status_code == 200, url
    found = re.findall(r'<a href="([^"]*)" aria-current="page"', page.content.decode())
    return [str(one) for one in found]


@pytest.mark.parametrize(
    "name",
    [
        "index",
        "policy_agent_changelist",
        "policy_agent_templates",
        "policy_apikey_changelist",
        "ledger_hold_changelist",
    ],
)
def test_one_page_is_marked(superuser, name):
    assert marked(superuser, address(name)) == [address(name)]


def test_so_is_the_list_on_the_pages_of_what_is_in_it(superuser, template):
    agent = make_agent()

    assert marked(superuser, address("policy_agent_change", agent.id)) == [address("policy_agent_changelist")]
    assert marked(superuser, address("policy_agent_template", template.name)) == [address("policy_agent_templates")]
    assert marked(superuser, reverse("roles")) == [reverse("roles")]
