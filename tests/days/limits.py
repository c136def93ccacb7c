"""Steps with an agent's limit per payment."""

from tests.days.installation import BUYER
from tests.days.people import Person

TOO_MUCH = (422, "under_max_payment")


def preview(person: Person, per_payment: str) -> tuple[str, str]:
    """Go from the agent's page to the preview of a new limit; returns what it would have refused and let through."""
    person.open("/console/policy/agent/")
    person.content.locator("#result_list th a", has_text=BUYER).click()
    person.click("Change the policy")
    person.fill("Per payment, in USDC", per_payment)
    person.click("See what it would have done")
    refused, let_through = person.content.locator(".columns section.box").all_inner_texts()
    assert "Refused, though they were approved" in refused
    assert "Let through, though they were refused" in let_through
    return refused, let_through


def put_in_force(person: Person, reason: str) -> None:
    person.fill("Reason", reason)
    person.click("Put this policy in force")


def ask_for_it(person: Person, reason: str) -> None:
    assert "More would pass than now" in person.text
    person.fill("Reason", reason)
    person.click("Ask for this policy")
    assert "a second person has to confirm this" in person.text
    person.click("Request", exact=False)
    assert not person.sees("Confirm")


def confirm_it(person: Person, difference: str) -> None:
    person.open("/console/staff/changerequest/")
    person.click("Set the limits of an agent")
    assert difference in person.text
    person.click("Confirm")
    assert f"The policy of {BUYER} is polrev_" in person.text
