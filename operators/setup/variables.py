"""The variables that an installation normally sets: what each is, and how the keys are made. Pure."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from chains.catalogue import Chain, Vm
from foundation.environment.configuration import SECP256K1_ORDER
from foundation.kernel.assets import Asset
from operators.setup.env_file import line_of

_HEAD = """\
# The variables of this installation. docs/operate/settings.md says all of each, and has more of them.
# It holds keys that move money: keep a backup of it in a safe place, apart from the database's.
# Each line is NAME=value or NAME='value', which shells, systemd and Docker Compose read the same.
"""


def _make_below_order() -> str:
    return f"{1 + secrets.randbelow(SECP256K1_ORDER - 1):064x}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: a comment about it, and how it is made, if it is a key. `example`: for one that need not be set."""

    name: str
    says: str
    make: Callable[[], str] | None = None
    example: str = ""

    def lines(self, values: Mapping[str, str]) -> Iterator[str]:
        """Write the comment and the variable, commented out if it has no value."""
        yield f"# {self.says}"
        value = values.get(self.name)
        yield line_of(self.name, value) if value else f"# {self.name}={self.example}"


SERVERS = (
    Variable("DATABASE_URL", "PostgreSQL.", example="postgres://user:password@host:5432/name?sslmode=verify-full"),
    Variable("REDIS_URL", "Redis: rediss:// speaks TLS.", example="redis://:password@host:6379/0"),
    Variable("ALLOWED_HOSTS", "Host names that are answered, separated by commas.", example="pay.example.com"),
    Variable("CONSOLE_URL", "The console's address, for the links of notices.", example="https://pay.example.com"),
)
KEYS = (
    Variable(
        "SECRET_KEY", "Django's secret: sessions, one-time links, authenticators.", lambda: secrets.token_urlsafe(48)
    ),
    Variable("POLICY_SIGNER_ED25519_KEY", "Signs log entries and proofs.", lambda: secrets.token_hex(32)),
    Variable("WEBHOOK_SIGNING_KEY", "Signs webhooks.", lambda: secrets.token_hex(32)),
    Variable("POLICY_SIGNER_SECP256K1_KEY", "Co-signs payments on EVM chains.", _make_below_order),
    Variable("RELAYER_SEED", "The relayers' accounts, which submit payments.", lambda: secrets.token_hex(64)),
    Variable("WEBHOOK_SECRETS_KEY", "Encrypts the secrets of webhooks.", lambda: secrets.token_hex(32)),
    Variable("METRICS_TOKEN", "Bearer token of /metrics.", lambda: secrets.token_urlsafe(32)),
)
SOLANA_KEY = Variable("POLICY_SIGNER_SOLANA_KEY", "Co-signs payments on Solana.", lambda: secrets.token_hex(32))
OPTIONAL = (
    Variable("TRUSTED_PROXIES", "How many proxies stand in front of web.", example="1"),
    Variable("EMAIL_URL", "The mail server of notices.", example="smtps://user:password@mail.example.com"),
    Variable("DEFAULT_FROM_EMAIL", "Their sender.", example="allowance@example.com"),
    Variable("NOTICE_URLS", "Chat channels of notices.", example="operations=https://hooks.example.com/services/T0/B0"),
    Variable("GAS_BUDGET_PER_AGENT", "The most that an agent's gas may cost in a day, in coins.", example="0.05"),
    Variable("RELAYERS_PER_CHAIN", "Accounts that submit, on each EVM chain.", example="16"),
    Variable("RATE_LIMIT_PER_MINUTE", "Requests of one API key in a minute.", example="1200"),
    Variable("WEB_CONCURRENCY", "Processes of web.", example="2"),
    Variable("WORKER_CONCURRENCY", "Processes of worker.", example="4"),
    Variable("WEBHOOK_CONCURRENCY", "Processes of webhooks.", example="2"),
    Variable("WEBHOOK_PROXY_URL", "The proxy through which webhooks leave.", example="http://proxy.example.com:3128"),
    Variable("ALLOWANCE_URL", "Where mcp reaches web: its public address.", example="https://pay.example.com"),
    Variable("MCP_ALLOWED_HOSTS", "Host names that mcp is asked by.", example="pay.example.com"),
    Variable("LOG_FORMAT", "plain, or json: an object on each line of the log.", example="json"),
    Variable("LOG_LEVEL", "The least severe level that is logged.", example="INFO"),
    Variable("SENTRY_DSN", "Where errors are reported.", example="https://key@sentry.example.com/1"),
)
# A chain with real money is not released without a least amount: each payment costs gas.
_LEAST = {Asset.SOL: "0.001"}


def of_chain(chain: Chain) -> list[Variable]:
    """List the variables of a chain that is served."""
    prefix, is_solana = chain.variables, chain.vm is Vm.SOLANA
    printed = f"`manage.py deploy_escrow {chain.alias}` prints it."
    return [
        Variable(f"{prefix}_RPC_URLS", f"Nodes of {chain.alias} ({chain.caip2}), best of three providers."),
        Variable(f"{prefix}_ESCROW", f"Its escrow: {printed}"),
        Variable(f"{prefix}_FIRST_BLOCK", f"The block of the escrow: {printed}"),
        *([Variable(f"{prefix}_OWNER", f"The escrow's owner: {printed}")] if is_solana else []),
        Variable(f"{prefix}_MIN_PAYMENT", "The smallest payments, each of which costs gas.", example=least_of(chain)),
    ]


def least_of(chain: Chain) -> str:
    """Suggest the smallest payments of a chain."""
    return ",".join(f"{asset}={_LEAST.get(asset, '0.01')}" for asset in chain.tokens)


def render(values: Mapping[str, str], served: list[Chain]) -> str:
    """Write the whole file."""
    sections = {
        "Servers": [*SERVERS],
        "Chains": [variable for chain in served for variable in of_chain(chain)],
        "Keys": [*KEYS, SOLANA_KEY],
        "What may be set besides": [*OPTIONAL],
    }
    text = [_HEAD]
    for title, variables in sections.items():
        text += [f"# --- {title} ---", *(line for variable in variables for line in variable.lines(values)), ""]
    return "\n".join(text)


def render_added(values: Mapping[str, str], served: list[Chain]) -> str:
    """Write the lines of some variables that a file is to have besides."""
    known = [*SERVERS, *(variable for chain in served for variable in of_chain(chain)), *KEYS, SOLANA_KEY]
    added = (line for variable in known if variable.name in values for line in variable.lines(values))
    return "\n".join(["", *added, ""])
