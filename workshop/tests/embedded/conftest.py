"""The chains and installations of the local servers' tests."""

from workshop.tests.localnet.conftest import install, solana, solana_url

__all__ = ["install", "solana", "solana_url"]
