"""What the tests of each distribution of this checkout share."""

pytest_plugins = ["tests.support.fixtures"]
