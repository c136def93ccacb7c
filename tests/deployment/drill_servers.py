"""What the drill's containers talk to: Debian's PostgreSQL and Redis at ports, and the embedded chain."""

import os
import pwd
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kills import wait_until

_POSTGRESQL = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, str]]:
    """Run them until the block ends; yields the variables of an installation on them."""
    os.environ |= {"EMBEDDED": "true", "EMBEDDED_DIR": str(folder / "chain")}
    from workshop import embedded  # noqa: PLC0415 - not before the environment says where

    with _postgresql(folder) as database, _redis(folder) as redis:
        os.environ |= {"DATABASE_URL": database, "REDIS_URL": redis}
        os.environ |= embedded.environment()
        embedded.start()
        kept = {name: value for name, value in os.environ.items() if name.startswith(("CHAIN_", "POLICY_SIGNER"))}
        own = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "RELAYER_SEED", "WEBHOOK_SIGNING_KEY", "WEBHOOK_SECRETS_KEY")
        yield {**kept, **{name: os.environ[name] for name in own}, "ALLOWED_HOSTS": "localhost"}
        embedded.stop_unused()


@contextmanager
def _postgresql(folder: Path) -> Iterator[str]:
    data, port = folder / "postgresql", 25_433
    user = pwd.getpwnam("postgres")
    data.mkdir()
    os.chown(data, user.pw_uid, user.pw_gid)
    folder.chmod(0o755)

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [_POSTGRESQL / program, "-D", data / "cluster", *arguments], check=True, cwd="/", user=user.pw_uid,
            group=user.pw_gid, extra_groups=[], stdout=subprocess.DEVNULL,
        )  # fmt: skip

    call("initdb", "--data-checksums", "--auth=trust", "--username=allowance")
    call("pg_ctl", "-w", "-l", str(data / "log"), "-o", f"-p {port} -k {data}", "start")
    try:
        url = f"postgres://allowance@127.0.0.1:{port}"
        subprocess.run(["psql", "--quiet", f"{url}/postgres", "--command=CREATE DATABASE allowance"], check=True)
        yield f"{url}/allowance"
    finally:
        call("pg_ctl", "-m", "fast", "stop")


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    password, port = secrets.token_hex(16), 25_434
    process = subprocess.Popen(
        ["redis-server", "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=folder
    )
    assert process.stdin
    process.stdin.write(f"requirepass {password}\nport {port}\nbind 127.0.0.1\nmaxmemory-policy noeviction\n")
    process.stdin.close()
    ping = ["redis-cli", "-p", str(port), "ping"]
    try:
        wait_until(lambda: b"PONG" in _said(ping, password), "Redis answers")
        yield f"redis://:{password}@127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _said(command: list[str], password: str) -> bytes:
    return subprocess.run(
        command, check=False, capture_output=True, env={**os.environ, "REDISCLI_AUTH": password}
    ).stdout
