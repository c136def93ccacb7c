"""Steps with a chain that is stopped and started again, and with the alarm of it."""

from tests.days.people import Person
from workshop.tests.demo.running import wait_for

INCIDENT, WELL_AGAIN = "The provider reports an incident", "The provider is well again"
PAGES = ("/console/services/service/", "/console/policy/agent/", "/console/search/", "/console/staff/changerequest/")

# An alarm is raised within a minute; a machine that does much else may take longer.
PATIENCE_S = 180


def stop_chain(person: Person) -> None:
    _open_chain(person)
    person.click("Stop signing …")
    person.fill("Reason", INCIDENT)
    person.click("Stop signing")
    assert INCIDENT in person.text


def pages_with_alarm(person: Person) -> list[str]:
    """Find the pages that name the alarm at their top."""
    found = []
    for path in PAGES:
        person.open(path)
        if INCIDENT in " ".join(person.content.locator("#alarms").all_inner_texts()):
            found.append(path)
    return found


def wait_for_alarm(person: Person) -> None:
    """Wait until the alarm stands at the top of every page."""
    wait_for(lambda: pages_with_alarm(person) == list(PAGES), PATIENCE_S)


def deal_with_alarm(person: Person) -> None:
    """Come from the alarm to its page and say who deals with it."""
    person.open("/console/backoffice/alarm/?state=open")
    person.content.locator("#result_list th a", has_text=INCIDENT).click()
    person.click("Acknowledge …")
    person.fill("What is being done about it", "I am on the telephone with them")
    person.click("Acknowledge")


def ask_to_start(person: Person) -> None:
    """Ask for the start; one's own request has no button."""
    _open_chain(person)
    person.click("Start signing again …")
    assert INCIDENT in person.text
    person.fill("Reason", WELL_AGAIN)
    person.click("Start signing again")
    person.click("Request", exact=False)
    assert WELL_AGAIN in person.text
    assert not person.sees("Confirm")


def confirm_start(person: Person) -> None:
    person.open("/console/staff/changerequest/")
    person.click("Start signing on a chain")
    assert WELL_AGAIN in person.text
    person.click("Confirm")
    assert "Started signing again" in person.text


def is_alarm_open(person: Person) -> bool:
    person.open("/console/backoffice/alarm/?state=open")
    return INCIDENT in person.text


def _open_chain(person: Person) -> None:
    person.open("/console/payments/chainstate/")
    person.content.locator("#result_list th a", has_text="solana").click()
    person.page.wait_for_load_state()
