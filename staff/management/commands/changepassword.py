"""`manage.py changepassword`: Django's own, recorded in the audit."""

from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.db import transaction

from foundation.commands import AUTHOR
from staff.audit import record


class Command(changepassword.Command):
    def handle(self, *args: Any, **options: Any) -> str | None:
        with transaction.atomic():
            before = dict(User.objects.values_list("username", "password"))
            said = super().handle(*args, **options)
            for username, password in User.objects.values_list("username", "password"):
                if before.get(username) != password:
                    record("person.password_changed", subject_type="person", subject=username, by=AUTHOR)
        return said
