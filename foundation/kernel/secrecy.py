"""Secrets that a traceback, an error page or a `repr` does not print, wherever they are passed.

A debug page shows the settings and the local variables of every frame, those of libraries, too. So a secret is not
wrapped and unwrapped where it is needed, but stays bytes, or text, whose `repr` is asterisks.
"""

import hmac
from typing import Any, NoReturn, Self

HIDDEN = "********"


class Secret(bytes):
    """A key. Values that are made from it, such as its hex or a slice, are plain again."""

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, _form: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and hmac.compare_digest(bytes(self), bytes(other))

    def __hash__(self) -> int:
        return super().__hash__()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("A secret is not pickled.")


class SecretText(str):
    """A password, or an address with one in it, for libraries that need text: Django, Celery, drivers.

    `str()` and formatting give the text, which Django signs with; `repr` does not.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("A secret is not pickled.")
