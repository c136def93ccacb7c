"""A complete configuration, and programs that are started with one."""

import os
import runpy
import subprocess
import sys

import pytest
from django.conf import settings

from allowance import boot
from foundation.environment.process_types import EVERY_TYPE
from foundation.telemetry import known_secrets

GOOD = {
    "SECRET_KEY": "An example of a long secret, which nobody uses: 0123456789.",
    "DATABASE_URL": "postgres://user:password@db.example:5432/allowance",
    "REDIS_URL": "redis://broker.example:6379/0",
    "ALLOWED_HOSTS": "pay.example",
    "POLICY_SIGNER_ED25519_KEY": "11" * 32,
    "POLICY_SIGNER_SECP256K1_KEY": "22" * 32,
    "RELAYER_SEED": "33" * 64,
    "WEBHOOK_SIGNING_KEY": "66" * 32,
    "WEBHOOK_SECRETS_KEY": "55" * 32,
    "CHAIN_BASE_RPC_URLS": "https://node.example,https://node.example.net/v2",
    "CHAIN_BASE_ESCROW": "0x" + "ab" * 20,
    "CHAIN_BASE_MIN_PAYMENT": "USDC=0.01,EURC=0.01",
}
SOLANA = {
    "POLICY_SIGNER_SOLANA_KEY": "44" * 32,
    "CHAIN_SOLANA_RPC_URLS": "https://solana.example,https://solana.example.net",
    "CHAIN_SOLANA_ESCROW": "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    "CHAIN_SOLANA_OWNER": "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB",
    "CHAIN_SOLANA_FIRST_BLOCK": "350000000",
    "CHAIN_SOLANA_MIN_PAYMENT": "SOL=0.001,USDC=0.01,USDT=0.01,PYUSD=0.01,EURC=0.01",
}


def check(environment, *arguments):
    """Run `manage.py check` in an environment of nothing but these variables."""
    return subprocess.run(
        [sys.executable, "manage.py", "check", *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )


def read_settings(environment):
    """Read the settings anew, from an environment of nothing but these variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boot, "_types", EVERY_TYPE)  # a test may have loaded the web server's module
        patch.setattr(known_secrets, "_known", ())
        for name in [*os.environ]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        return runpy.run_path(str(settings.BASE_DIR / "allowance" / "settings.py"))
