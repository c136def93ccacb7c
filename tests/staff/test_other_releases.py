"""Requests that another release has left, during an upgrade or after it was taken back."""

from django.contrib.auth.models import User

from staff.models import ChangeRequest
from staff.second_person import propose
from tests.foundation.console.conftest import Person
from tests.staff.people import PERMISSION, make_user, registered
from tests.staff.test_requests_page import LIST, decide, page_of


def test_what_another_release_asked_for_stops_no_page_is_never_done_and_can_be_refused(superuser, settings):
    settings.FOUR_EYES = True
    ann: User = make_user(PERMISSION, "staff.view_changerequest")
    with registered() as switch:
        request = propose(switch.proposal(), by=ann).request
        assert request is not None
        ChangeRequest.objects.filter(pk=request.pk).update(kind="of.another.release")

        for person in (Person(ann), superuser):
            assert [person.get(page).status_code for page in ("index", LIST)] == [200, 200]
            assert "of.another.release, unknown to this release" in page_of(person, request)
        assert "1 request waits for a second person: of.another.release" in superuser.get("index").content.decode()
        (said,) = decide(superuser, request, confirm="yes")
        assert said.startswith("Nothing was done.")
        request.refresh_from_db()
        assert (request.state, switch.made) == ("waiting", [])
        decide(superuser, request, refuse="yes", reason="Ask again")
    request.refresh_from_db()
    assert request.state == "refused"
