import pytest

pytest.register_assert_rewrite("tests.chains.contracts.world")
