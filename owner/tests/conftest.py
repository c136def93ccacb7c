"""The embedded chains of the tests of payments."""

from tests.payments.conftest import localnet

__all__ = ["localnet"]
