"""The error of the local installation."""


class LocalnetError(Exception):
    """The local installation cannot do what it should; the message says what to do about it."""
