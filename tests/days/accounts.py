"""Steps with the account of somebody who begins to work here."""

from tests.days.people import Person

NAME = "nina"
PASSWORD = "a staple of correct horses"
PEOPLE = "/console/auth/user/"


def make_account(person: Person, role: str) -> None:
    person.open(PEOPLE)
    person.click("Make an account")
    person.fill("User name", NAME)
    person.fill("Full name", "Nina Novak")
    person.fill("E-mail", "nina@example.com")
    person.content.get_by_role("checkbox", name=role).check()
    person.fill("Reason", "She begins today")
    person.click("Make account")
    assert NAME in person.text


def make_link(person: Person) -> str:
    """Make the one-time link for the new account; it is shown once."""
    open_account(person, NAME)
    person.click("Make a one-time link")
    person.fill("Reason", "Her first day")
    person.click("Make a one-time link")
    link = person.content.locator("code.secret").inner_text()
    person.click("I have it")
    return link


def choose_password(person: Person, link: str) -> None:
    person.open(link)
    person.fill("New password", PASSWORD)
    person.fill("New password confirmation", PASSWORD)
    person.click("Set password")
    assert "Your password is set" in person.text


def is_link_used_up(person: Person, link: str) -> bool:
    person.open(link)
    return "This link was used before" in person.text


def give_oneself_a_role(person: Person, role: str) -> None:
    """Try to: the page of one's own account refuses."""
    open_account(person, person.name)
    person.click("Change roles")
    person.content.get_by_role("checkbox", name=role).check()
    person.fill("Reason", "I would like to")
    person.click("Change roles")
    assert "This is your own account" in person.text


def roles_of(person: Person, name: str) -> str:
    """Read somebody's roles from the list of accounts."""
    person.open(PEOPLE)
    return person.content.locator("#result_list tbody tr").filter(has_text=name).inner_text()


def deactivate(person: Person) -> None:
    open_account(person, NAME)
    person.click("Deactivate")
    person.fill("Reason", "She left")
    person.click("Deactivate")


def open_account(person: Person, name: str) -> None:
    person.open(PEOPLE)
    person.click(name)
