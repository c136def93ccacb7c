"""The cast: agents of a company and the payees that they pay, with what each is like."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from foundation.kernel.assets import Asset
from policy.limits import Limits
from workshop.demo.people import BEN, FIONA

# The second one is not served any more.
CHAINS = LOCAL, ELSEWHERE = "eip155:31337", "eip155:8453"
# What somebody does at a moment: an operation that takes its clock as `now`.
Act = tuple[datetime, Callable[..., object]]
_CENT = Decimal("0.01")
_TASKS = (
    "research", "support", "travel", "billing", "forecasts", "data-feeds", "translations", "compute", "marketing",
    "legal-search", "recruiting", "logistics", "quality", "newsroom", "design", "inventory",
)  # fmt: skip
_PAYEES = (
    ("weather", "Weather data"), ("maps", "Maps and routes"), ("search", "Web search"), ("speech", "Speech to text"),
    ("translate", "Translations"), ("gpu-hours", "GPU hours"), ("storage", "Object storage"), ("proxies", "Proxies"),
    ("market-data", "Market data"), ("news-wire", "News wire"), ("patents", "Patent search"), ("flights", "Flights"),
    ("hotels", "Hotels"), ("stock-photos", "Stock photos"), ("kyc", "Identity checks"), ("couriers", "Couriers"),
)  # fmt: skip
_FEWEST_AGENTS, _MOST_AGENTS = 8, 60
# By their number.
_PAUSED, _NEGLECTED, _NEAR_A_LIMIT = {6, 17, 40}, {4, 13, 29}, {1, 3, 10}
_ASSETS = (Asset.USDC, Asset.USDC, Asset.USDC, Asset.EURC, Asset.USDC, Asset.USDT, Asset.USDC, Asset.PYUSD)


@dataclass(frozen=True, slots=True)
class Payee:
    """A registered service. Until `changed_at` it was paid at `address`; then its registration changed."""

    id: str
    name: str
    address: str
    asset: Asset
    chain: str = LOCAL
    webhook_url: str | None = None
    changed_at: datetime | None = None
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """A policy revision, in force from a moment."""

    since: datetime
    limits: Limits
    by: str


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent: what it pays, how often, under which limits, and what becomes of it."""

    id: str
    asset: Asset
    payees: Sequence[Payee]
    decisions: int
    usual_amount: Decimal
    began_at: datetime
    revisions: Sequence[Revision]
    paused_at: datetime | None = None
    last_deposit_at: datetime | None = None
    is_near_its_limit: bool = False
    seed: int = 0

    @property
    def usual_deposit(self) -> Decimal:
        """What is deposited for it whenever less than a quarter of that is left."""
        return ((self.usual_amount * self.decisions / 12 + 20) / 50).quantize(Decimal(1)) * 50 + 50


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a history plays: its span of time, what its names end in, and the chance that decides."""

    chance: random.Random
    suffix: str
    since: datetime
    until: datetime

    def new_address(self) -> str:
        """Make an EVM address that nobody has, in its canonical case."""
        return checksum_address(self.chance.randbytes(20).hex())

    def new_tx(self) -> str:
        """Make the id of a transaction that never was."""
        return f"0x{self.chance.randbytes(32).hex()}"


def checksum_address(digits: str) -> str:
    """Write 40 hexadecimal digits as an address."""
    from eth_utils.address import to_checksum_address  # noqa: PLC0415 - it loads for a second

    return str(to_checksum_address(f"0x{digits.lower()}"))


def make_payees(stage: Stage) -> list[Payee]:
    """Make the payees of each asset; one changed its registration, one was disabled, one is on another chain."""
    usdc = [_make_payee(stage, number, *named, Asset.USDC) for number, named in enumerate(_PAYEES)]
    others = [
        _make_payee(stage, number, f"{name}-{asset.lower()}", title, asset)
        for asset in (Asset.EURC, Asset.USDT, Asset.PYUSD)
        for number, (name, title) in enumerate(_PAYEES[:3])
    ]
    elsewhere = f"satellite-images{stage.suffix}"
    return [*usdc, *others, Payee(elsewhere, "Satellite images", stage.new_address(), Asset.USDC, ELSEWHERE)]


def _make_payee(stage: Stage, number: int, name: str, title: str, asset: Asset) -> Payee:
    return Payee(
        f"{name}{stage.suffix}",
        title,
        stage.new_address(),
        asset,
        webhook_url=f"https://hooks.example.com/{name}" if number % 3 == 0 else None,
        changed_at=stage.until - timedelta(hours=7) if name == "couriers" else None,
        disabled_at=stage.until - timedelta(days=11) if name == "proxies" else None,
    )


def make_agents(stage: Stage, payees: Sequence[Payee], decisions: int) -> list[AgentPlan]:
    """Share the decisions out among agents: a few pay often, many now and then."""
    count = max(_FEWEST_AGENTS, min(_MOST_AGENTS, decisions // 2_000))
    weights = [1 / (number + 2) ** 0.7 for number in range(count)]
    shares = [max(1, round(decisions * weight / sum(weights))) for weight in weights]
    shares[0] = max(1, shares[0] + decisions - sum(shares))
    return [_make_agent(stage, number, payees, share) for number, share in enumerate(shares)]


def _make_agent(stage: Stage, number: int, payees: Sequence[Payee], decisions: int) -> AgentPlan:
    chance, until = stage.chance, stage.until
    asset = _ASSETS[number % len(_ASSETS)]
    own = [payee for payee in payees if payee.asset is asset]
    began_at = stage.since + (until - stage.since) * chance.random() * (number % 3) * 0.1
    amount = Decimal(chance.choice(("0.12", "0.25", "0.40", "0.75", "1.10")))
    again = f"-{number // len(_TASKS) + 1}" if number >= len(_TASKS) else ""
    return AgentPlan(
        f"agent-{_TASKS[number % len(_TASKS)]}{again}{stage.suffix}",
        asset,
        [*own[-1:], *chance.sample(own[:-1], min(len(own) - 1, 3 + number % 5))],
        decisions,
        amount,
        began_at,
        _make_revisions(chance, amount * decisions / (until - began_at).days, amount, (began_at, until)),
        paused_at=until - timedelta(days=2) if number in _PAUSED else None,
        last_deposit_at=until - timedelta(days=6) if number in _NEGLECTED else None,
        is_near_its_limit=number in _NEAR_A_LIMIT,
        seed=chance.getrandbits(32),
    )


def _make_revisions(
    chance: random.Random, a_day: Decimal, amount: Decimal, span: tuple[datetime, datetime]
) -> list[Revision]:
    """Make limits that are sometimes too low, and were raised and lowered a few times."""
    since, until = span
    changes = sorted(since + (until - since) * chance.uniform(0.2, 0.95) for _ in range(chance.randint(0, 4)))
    revisions = []
    for at in (since, *changes):
        daily = max(a_day, amount * 4) * Decimal(chance.choice(("1.7", "2.0", "2.4", "3.0")))
        whole = daily.quantize(Decimal(1)) + 1
        limits = Limits(
            min((amount * chance.choice((6, 8, 12))).quantize(_CENT), whole),
            whole,
            (daily * chance.choice((5, 6))).quantize(Decimal(1)) + 1,
        )
        revisions.append(Revision(at.replace(microsecond=0), limits, chance.choice((FIONA, BEN, FIONA))))
    return revisions
