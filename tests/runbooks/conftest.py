"""The steps of the rehearsals assert, too."""

import pytest

_STEPS = (
    "chain_faults", "clients", "databases", "exchanged_secrets", "followed", "installation", "lost_money", "owner",
    "releases", "upgrade",
)  # fmt: skip
pytest.register_assert_rewrite(*(f"tests.runbooks.{one}" for one in _STEPS))
