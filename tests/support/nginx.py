"""The proxy that ends TLS: Debian's nginx with the configuration that deploy/nginx has for it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.support.kills import wait_until
from tests.support.ports import free_ports
from tests.support.tls import Authority

HOST = "localhost"
_CONFIGURATION = Path(__file__).parents[2] / "deploy/nginx/allowance.conf"
_AROUND = """
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{inner}
}}
"""


@dataclass(frozen=True, slots=True)
class TlsProxy:
    """An nginx that runs; clients verify it by the file of its authority. `log` has a line for each request."""

    port: int
    plain_port: int
    authority: Path
    log: Path

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    @property
    def plain_url(self) -> str:
        return f"http://{HOST}:{self.plain_port}"

    def session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env, session.verify = False, str(self.authority)
        return session


@contextmanager
def nginx(folder: Path, web_port: int, mcp_port: int = 9) -> Iterator[TlsProxy]:
    """Run one before a web server, and an `mcp`, until the block ends. Without its program, skip; CI insists on it."""
    program = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if program is None and "CI" not in os.environ:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    assert program, ".ci/run installs nginx"
    authority, (port, plain_port) = Authority(folder, HOST), free_ports(2)
    ours = {
        "listen 443 ": f"listen {port} ",
        "listen 80 ": f"listen {plain_port} ",
        "allowance.example.com": HOST,
        "/etc/nginx/tls/fullchain.pem": str(authority.chain),
        "/etc/nginx/tls/privkey.pem": str(authority.key),
        "/var/log/nginx/access.log": str(folder / "access.log"),
        "web:8000": f"127.0.0.1:{web_port}",
        "mcp:8000": f"127.0.0.1:{mcp_port}",
    }
    inner = _CONFIGURATION.read_text()
    for theirs, here in ours.items():
        assert theirs in inner, f"{_CONFIGURATION.name} has no {theirs!r}: change this table, too"
        inner = inner.replace(theirs, here)
    path = folder / "nginx.conf"
    path.write_text(_AROUND.format(folder=folder, inner=inner))
    process = subprocess.Popen([program, "-c", str(path), "-e", str(folder / "error.log")])
    running = TlsProxy(port, plain_port, authority.file, folder / "access.log")
    try:
        wait_until(lambda: _answers(running), f"nginx answers, see {folder}/error.log", patience_s=30)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(running: TlsProxy) -> bool:
    with suppress(requests.RequestException), running.session() as session:
        return session.get(f"{running.url}/healthz", timeout=5).ok
    return False
