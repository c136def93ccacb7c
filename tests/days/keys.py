"""Steps with an API key: issued, used, rotated, revoked."""

from tests.days.people import Person

NAME = "Buyer's program on vm-7"
ISSUE, KEYS = "/console/policy/apikey/add/", "/console/policy/apikey/"


def issue_key(person: Person, agent: str) -> str:
    """Issue a key for one agent; returns its text, which no page shows again."""
    person.open(KEYS)
    person.click("Add API key")
    person.fill("Name", NAME)
    person.fill("For the agent", agent)
    person.fill("Reason", "A new machine")
    person.click("Issue key")
    key = _read(person)
    person.click("I have copied it")
    _is_shown_nowhere(person, key)
    return key


def rotate_key(person: Person) -> str:
    """Issue the key's successor; returns its text."""
    _open_key(person, "in force")
    person.click("Rotate …")
    person.fill("Reason", "A year is over")
    person.click("Rotate API key")
    key = _read(person)
    person.open(person.page.url)
    _is_shown_nowhere(person, key)
    return key


def revoke_key(person: Person) -> None:
    """Revoke the newest key."""
    _open_key(person, "in force")
    person.click("Revoke …")
    person.fill("Reason", "It was in a log file")
    person.click("Revoke API key")
    assert "Revoked" in person.text


def _read(person: Person) -> str:
    key = person.content.locator("#key").inner_text()
    assert key.startswith("alw_")
    return key


def _is_shown_nowhere(person: Person, key: str) -> None:
    for path in (ISSUE, KEYS):
        person.open(path)
        assert key not in person.page.content()
    _open_key(person, "in force")
    assert key not in person.page.content()
    person.page.go_back()
    assert key not in person.page.content()


def _open_key(person: Person, state: str) -> None:
    """Open the page of the newest key of this name and state."""
    person.open(KEYS)
    row = person.content.locator("#result_list tbody tr").filter(has_text=NAME).filter(has_text=state)
    row.locator("th a").first.click()
    person.page.wait_for_load_state()
