"""Whoever may see a list guesses nothing by it that no page shows, letter by letter."""

import pytest
from django.contrib.auth.models import User

from tests.foundation.console.conftest import Person
from tests.support.factories import make_api_key
from tests.support.sign_in import make_user


@pytest.fixture
def auditor(db: None) -> Person:
    return Person(make_user("Auditor"))


@pytest.mark.parametrize("lookup", ["password__startswith", "password__regex", "password", "is_superuser__exact"])
def test_the_hashes_of_passwords(auditor: Person, lookup: str) -> None:
    password = User.objects.get(username=auditor.name).password

    answer = auditor.client.get("/console/auth/user/", {lookup: password[:30]})

    assert answer.status_code == 400
    assert auditor.name.encode() not in answer.content.partition(b"<main")[2]


def test_the_digests_of_keys(auditor: Person) -> None:
    make_api_key()

    assert auditor.client.get("/console/policy/apikey/", {"digest__gt": "\\x00"}).status_code == 400


@pytest.mark.parametrize("query", ["is_active__exact=1", "q=user", "p=0", "groups__id__exact=1"])
def test_what_a_list_offers_filters_it(auditor: Person, query: str) -> None:
    assert auditor.client.get(f"/console/auth/user/?{query}").status_code == 200
