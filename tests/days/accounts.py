"""Steps with the account of somebody who begins to work here."""

from tests.days.people import Person

NAME = "nina"
PASSWORD = "a staple of correct horses"
PEOPLE = "/console/auth/user/"


def ask_for_account(person: Person, role: str) -> None:
    person.open(PEOPLE)
    person.click("Make an account")
    person.fill("User name", NAME)
    person.fill("Full name", "Nina Novak")
    person.fill("E-mail", "nina@example.com")
    person.content.get_by_role("checkbox", name=role).check()
    person.fill("Reason", "She begins today")
    person.click("Make account")
    assert "a second person has to confirm this" in person.text


def confirm_account(person: Person) -> None:
    _confirm(person, "Change who works here", "nina@example.com")
    assert NAME in roles_of(person, NAME)


def ask_for_link(person: Person) -> str:
    """Ask for the one-time link of the new account; returns the page of the request, which shows no half yet."""
    open_account(person, NAME)
    person.click("Make a one-time link")
    person.fill("Reason", "Her first day")
    person.click("Make a one-time link")
    person.click("Request", exact=False)
    assert not _halves(person)
    return person.page.url


def confirm_link(person: Person) -> str:
    """Confirm it; returns the address, which is all that this person sees."""
    _confirm(person, "Make a one-time link", "Nina Novak")
    (address,) = _halves(person)
    return address


def see_code(person: Person, request: str) -> str:
    """Look at the page of the request again; returns the code, which is all that who asked sees."""
    person.open(request)
    (code,) = _halves(person)
    return code


def choose_password(person: Person, link: str, code: str) -> bool:
    """Open a link, and set a password with a code; tells whether it is taken."""
    person.open(link)
    person.fill("Code", code)
    person.fill("New password", PASSWORD)
    person.fill("New password confirmation", PASSWORD)
    person.click("Set password")
    return "Your password is set" in person.text


def _confirm(person: Person, title: str, shown: str) -> None:
    person.open("/console/staff/changerequest/")
    person.click(title)
    assert shown in person.text
    person.click("Confirm")


def _halves(person: Person) -> list[str]:
    return person.content.locator("code.secret").all_inner_texts()


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
