"""Steps with a payee that asks to be paid at another address."""

from tests.days.installation import GPU, GPU_ADDRESS
from tests.days.people import Person

REASON = "They moved to a new wallet; I called them"
NEW_END = "97"
NEW_ADDRESS = GPU_ADDRESS[:-2] + NEW_END


def see_what_changed(person: Person) -> None:
    """Come from the work queue to the payee and see what was approved last beside what is asked now."""
    person.open("/console/")
    person.click("Review")
    person.content.locator("#result_list th a", has_text=GPU).click()
    person.page.wait_for_load_state()
    person.click("Approve …")
    address = person.content.locator("table.diff tbody tr").filter(
        has=person.page.get_by_role("rowheader", name="Address")
    )
    marked = address.locator("mark").all_inner_texts()
    assert marked == [GPU_ADDRESS[-2:], NEW_END], "What changed is marked, and nothing else."


def ask_for_approval(person: Person) -> None:
    assert "A second person has to confirm" in person.text
    person.fill("Reason", REASON)
    person.click("Ask for approval of 1 payee")
    assert "a second person has to confirm this" in person.text


def is_refused_alone(person: Person) -> str:
    """See that one's own request has no button, and that a hand-made one does nothing; returns what it shows."""
    person.click("Request", exact=False)
    assert not person.sees("Confirm")
    assert person.sees("Take back")
    shown = comparison(person)

    person.post(person.page.url.replace("/change/", "/decide/"), confirm="yes")
    person.page.reload()
    assert "Nothing was done." in person.text
    assert "It happens as soon as a second person confirms it" in person.text
    return shown


def comparison(person: Person) -> str:
    """Read what a request's page shows of what was approved last beside what is asked now."""
    return person.content.locator("section.box:has(table.diff)").inner_text()


def confirm_what_was_seen(person: Person, shown: str) -> None:
    """Confirm exactly what the first one saw."""
    person.open("/console/staff/changerequest/")
    person.click("Approve a payee")
    assert comparison(person) == shown
    assert NEW_ADDRESS in shown.lower()
    assert person.content.locator("table.diff mark").all_inner_texts() == [GPU_ADDRESS[-2:], NEW_END]
    assert REASON in person.text
    person.click("Confirm")
    assert f"Approved {GPU}" in person.text
