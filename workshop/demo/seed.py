"""Make what a new installation needs before the story. A second run changes nothing that is right already."""

import fcntl
import os
import secrets
from decimal import Decimal
from itertools import count
from pathlib import Path

from celery import current_app
from django.contrib.auth import get_user_model
from django.core.management import call_command

from foundation.kernel.assets import Asset
from policy.key_operations import create_api_key, revoke_api_key
from policy.limits import Limits
from policy.models import Agent, ApiKey, SignerSwitch
from policy.operations import create_agent, switch_signer
from workshop.demo.customer import Deposit, deposit

STAFF = "demo"
CONSOLE_USER = "demo"
KEY_NAME = "demo"
RESEARCH, TRAVEL, COMPUTE, LIBRARY = "agent-research", "agent-travel", "agent-compute", "agent-library"
EVM, SOLANA = "evm-localnet", "solana-localnet"


def migrate() -> None:
    """Bring the database's schema up to date, and its functions, which have no migration when they change."""
    call_command("migrate", interactive=False, verbosity=0)


def prepare() -> None:
    """Let the chain be looked at as soon as a worker is up, and repair what an interrupted story left behind."""
    current_app.send_task("payments.tasks.on_every_chain", ("payments.tasks.observe_chain",), expires=60)
    if not SignerSwitch.objects.filter(is_signing=True).exists():
        switch_signer(is_signing=True, by=STAFF)


def seed_agents() -> None:
    """Create the agents that people can try things out with; a customer's deposit funds each."""
    for agent_id, asset, chain in (
        (RESEARCH, Asset.USDC, EVM),
        (TRAVEL, Asset.EURC, EVM),
        (COMPUTE, Asset.SOL, SOLANA),
        (LIBRARY, Asset.PYUSD, SOLANA),
    ):
        if not Agent.objects.filter(pk=agent_id).exists():
            make_agent(agent_id, asset, "5", "50", "200")
            deposit(Deposit(agent_id, "1000", asset, chain))


def make_agent(agent_id: str, asset: Asset, max_per_payment: str, daily_limit: str, weekly_limit: str) -> str:
    """Create an agent whose allowance is empty; returns its id."""
    limits = Limits(Decimal(max_per_payment), Decimal(daily_limit), Decimal(weekly_limit))
    return create_agent(agent_id, asset=asset, limits=limits, by=STAFF).id


def next_run() -> int:
    """Count the story's runs: it plays with agents of its own each time, whose rolling windows are empty."""
    return next(number for number in count(1) if not Agent.objects.filter(pk=f"{RESEARCH}-{number}").exists())


def seed_console_user(folder: Path) -> str:
    """Make sure that the console's user has the password that is kept in the data folder; returns the password."""
    password = _kept_password(folder / "console-password")
    user, _ = get_user_model().objects.get_or_create(username=CONSOLE_USER)
    is_right = user.is_active and user.is_staff and user.is_superuser and user.check_password(password)
    if not is_right:
        user.is_active = user.is_staff = user.is_superuser = True
        user.set_password(password)
        user.save()
    return password


def new_api_keys(folder: Path) -> tuple[str, str]:
    """Make the demo's two API keys, in force until the next demo of this data folder starts.

    Returns one that is unbound and has every scope, and one that is bound to RESEARCH, as the tools for models need it.
    """
    # Held until this process ends: the key of a demo that still runs on the same data stays good.
    claim = os.open(folder / "demo.lock", os.O_RDWR | os.O_CREAT, 0o600)
    if _is_exclusive(claim):
        for old in ApiKey.objects.filter(name=KEY_NAME, revoked_at=None):
            revoke_api_key(old.id, by=STAFF)
    fcntl.flock(claim, fcntl.LOCK_SH)
    _, key = create_api_key(name=KEY_NAME, by=STAFF)
    _, bound = create_api_key(name=KEY_NAME, agent_id=RESEARCH, by=STAFF)
    return key, bound


def _is_exclusive(claim: int) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _kept_password(path: Path) -> str:
    if path.exists():
        return path.read_text().strip()
    password = secrets.token_urlsafe(12)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{password}\n")
    return password
