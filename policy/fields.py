"""The column type of every amount."""

from decimal import Decimal
from typing import Any

from django.core.validators import DecimalValidator
from django.db import models


class AmountField(models.DecimalField):
    """`numeric` without a fixed scale, so that amounts come back as they were written and nothing is rounded."""

    def __init__(self, **options: Any) -> None:
        options.update(max_digits=60, decimal_places=18)
        super().__init__(**options)

    def db_type(self, connection: Any) -> str:
        return "numeric"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002 - Django's signature
        return value if value is None or hasattr(value, "resolve_expression") else Decimal(value)

    def deconstruct(self) -> Any:
        name, path, args, options = super().deconstruct()
        del options["max_digits"], options["decimal_places"]
        return name, path, args, options

    @property
    def validators(self) -> list[Any]:
        return [validator for validator in super().validators if not isinstance(validator, DecimalValidator)]
