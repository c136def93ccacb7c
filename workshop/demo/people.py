"""The staff of the demo: one account of each role, all with the console's password."""

from django.contrib.auth.models import Group, User

FIONA, BEN, OLGA, ADA, ADAM = "fiona", "ben", "olga", "ada", "adam"
ROLES = {FIONA: "Finance", BEN: "Finance", OLGA: "Operations", ADA: "Auditor", ADAM: "Administrator"}


def seed_people(password: str) -> None:
    """Make sure that the accounts are there, each with its role alone."""
    for username, role in ROLES.items():
        person, _ = User.objects.get_or_create(username=username, defaults={"is_staff": True})
        if not (person.is_active and person.is_staff and person.check_password(password)):
            person.is_active = person.is_staff = True
            person.set_password(password)
            person.save()
        person.groups.set([Group.objects.get(name=role)])
