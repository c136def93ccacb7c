"""The product's version, as in pyproject.toml; the API's is another one, in its path."""

VERSION = "0.3.0"
