"""The types of processes, and which secrets each reads. Pure.

The command that starts a process says what it is. A setting would have to repeat that, and could contradict it.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise


class ProcessType(StrEnum):
    """A line of the Procfile; `release` is made of commands."""

    WEB = "web"
    WORKER = "worker"
    WEBHOOKS = "webhooks"
    BEAT = "beat"
    MCP = "mcp"  # reads no secret: each of its callers brings a key
    COMMAND = "command"


_WEB, _WORKER, _WEBHOOKS, _BEAT = ProcessType.WEB, ProcessType.WORKER, ProcessType.WEBHOOKS, ProcessType.BEAT
EVERY_TYPE = frozenset(ProcessType)

# Which processes read a secret, beside commands, which read everything. A name that is not here is no secret.
READERS: dict[str, frozenset[ProcessType]] = {
    "DATABASE_URL": frozenset({_WEB, _WORKER, _WEBHOOKS}),
    "DATABASE_REPLICA_URL": frozenset({_WEB}),
    "REDIS_URL": frozenset({_WEB, _WORKER, _WEBHOOKS, _BEAT}),
    "SECRET_KEY": frozenset({_WEB}),
    "SECRET_KEY_FALLBACKS": frozenset({_WEB}),
    "ALLOWED_HOSTS": frozenset({_WEB}),
    "METRICS_TOKEN": frozenset({_WEB}),
    "OIDC_CLIENT_SECRET": frozenset({_WEB}),
    # Seals log entries, and signs proofs of payment.
    "POLICY_SIGNER_ED25519_KEY": frozenset({_WEB}),
    # Signs webhooks (v1a); web publishes its public half.
    "WEBHOOK_SIGNING_KEY": frozenset({_WEB, _WEBHOOKS}),
    "WEBHOOK_SIGNING_KEY_FALLBACKS": frozenset({_WEBHOOKS}),
    # Co-sign payments and the transactions that replace them.
    "POLICY_SIGNER_SECP256K1_KEY": frozenset({_WEB, _WORKER}),
    "POLICY_SIGNER_SOLANA_KEY": frozenset({_WEB, _WORKER}),
    "RELAYER_SEED": frozenset({_WEB, _WORKER}),
    # Makes the secrets of payees, shows them to staff, and signs with them.
    "WEBHOOK_SECRETS_KEY": frozenset({_WEB, _WEBHOOKS}),
    "WEBHOOK_SECRETS_KEY_FALLBACKS": frozenset({_WEB, _WEBHOOKS}),
    # The worker sends notices; the console says where to.
    "EMAIL_URL": frozenset({_WEB, _WORKER}),
    "NOTICE_URLS": frozenset({_WEB, _WORKER}),
    # Both post to addresses outside: events to payees, notices to channels.
    "WEBHOOK_PROXY_URL": frozenset({_WORKER, _WEBHOOKS}),
    # The address of a node may hold a key of its provider.
    "CHAIN_<ALIAS>_RPC_URLS": frozenset({_WEB, _WORKER}),
    # Every process reports its errors; what pays or tells payees is traced.
    "SENTRY_DSN": frozenset({_WEB, _WORKER, _WEBHOOKS, _BEAT}),
    "OTEL_EXPORTER_OTLP_ENDPOINT": frozenset({_WEB, _WORKER, _WEBHOOKS}),
    "OTEL_EXPORTER_OTLP_HEADERS": frozenset({_WEB, _WORKER, _WEBHOOKS}),
}
# Read by the commands of an escrow's owner, when they need them.
OF_COMMANDS = frozenset({"DEPLOYER_KEY", "DEPOSIT_KEY", "OLD_POLICY_SIGNER_SOLANA_KEY", "OLD_RELAYER_SEED"})
# Which process serves a queue of Celery.
SERVERS = {"celery": _WORKER, "webhooks": _WEBHOOKS}


def is_reader(types: frozenset[ProcessType], name: str) -> bool:
    """Tell whether a process of these types reads a variable."""
    return name not in READERS or ProcessType.COMMAND in types or bool(types & READERS[name])


def is_secret(name: str) -> bool:
    """Tell whether the value of a variable is a secret."""
    return name in READERS or name in OF_COMMANDS or (name.startswith("CHAIN_") and name.endswith("_RPC_URLS"))


def secrets_in(variables: Mapping[str, str]) -> list[str]:
    """List the values of variables that nobody else may see; host names are no such secret."""
    return [value for name, value in variables.items() if is_secret(name) and name != "ALLOWED_HOSTS"]


def types_of_celery(arguments: Sequence[str]) -> frozenset[ProcessType]:
    """Return the types that the arguments behind `celery` start. A worker without `--queues` serves all of them."""
    if "worker" not in arguments:
        # The others, such as `status` and `inspect`, do what beat does: they speak to the broker.
        return frozenset({_BEAT})
    beside = {_BEAT} if {"-B", "--beat"} & {*arguments} else set()
    queues = [queue for value in _queues(arguments) for queue in value.split(",")]
    return types_of_queues(queues or SERVERS) | beside


def types_of_queues(queues: Sequence[str] | dict[str, ProcessType]) -> frozenset[ProcessType]:
    """Return the types that serve some queues. A queue that is not known counts as all of them."""
    return frozenset(SERVERS[queue] for queue in queues) if {*queues} <= SERVERS.keys() else frozenset(SERVERS.values())


def _queues(arguments: Sequence[str]) -> list[str]:
    """Find the values of `--queues` and `-Q`, joined to them or behind them."""
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("--queues=")]
    values += [argument[2:] for argument in arguments if argument.startswith("-Q") and argument != "-Q"]
    return values + [value for option, value in pairwise(arguments) if option in ("-Q", "--queues")]
