"""The demo from its first process to its last: start, seed, play, stay up, stop."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from django.conf import settings
from django.db import connection

from workshop.demo import access, finance_day, paid_page, ports, seed, signals, story
from workshop.demo.client import Api
from workshop.demo.finance_day import Link
from workshop.demo.payee import Payee
from workshop.demo.people import seed_people
from workshop.demo.processes import Processes
from workshop.demo.screen import Screen

_READY_S = 90
_POLL_S = 0.1
_WATCH_S = 0.5


def run(screen: Screen, *, port: int | None, once: bool, json_file: Path | None) -> bool:
    """Play the demo until it is over or somebody stops it; tell whether it came out as promised.

    Raises:
        PortTakenError, AccessFileError: nothing was started.
        ChildEndedError: a process ended by itself; the others are stopped.
        TimeoutError: the processes run, but payments cannot be made.
    """
    if json_file is not None:
        access.clear(json_file)
    signals.listen()
    try:
        with ports.reserve(port) as reservation:
            return _run(screen, reservation.getsockname()[1], once=once, json_file=json_file)
    except signals.StopRequested:
        return not once  # --once asks for a whole story, and this one was stopped


def _run(screen: Screen, port: int, *, once: bool, json_file: Path | None) -> bool:
    folder = data_folder()
    url = f"http://{ports.HOST}:{port}"
    screen.line("migrating the database")
    seed.migrate()
    processes = Processes(folder / "logs", _environment(folder))
    with _ending(screen, processes):
        _start(processes, port)
        paid_page.allow()
        screen.line(f"starting web, worker, webhooks and beat (logs: {folder / 'logs'})")
        seed.prepare()
        seed.seed_agents()
        password, (api_key, bound_key) = seed.seed_console_user(folder), seed.new_api_keys(folder)
        seed_people(password)
        api = Api(url, api_key)
        _wait_until_ready(api, processes)
        screen.line(f"ready {screen.elapsed_s():.1f} s after the start, at {url}")
        mcp_url = _start_mcp(processes, url)

        payee, links = _play(api, screen, processes, password, mcp_url)
        screen.total()
        found = access.Access(url, password, api_key, access.Tools(f"{mcp_url}/mcp", bound_key), folder, payee, links)
        is_as_promised = screen.kept == screen.steps
        if json_file is not None and (is_as_promised or not once):
            access.write(json_file, found)
        if not once:
            connection.close()  # nothing is asked of the database from here on
            found.show(screen)
            _stay(processes)
    return is_as_promised


def data_folder() -> Path:
    """Name the folder that holds all of this installation: EMBEDDED_DIR, or `.data` of the checkout."""
    return Path(os.environ.get("EMBEDDED_DIR") or settings.BASE_DIR / ".data").expanduser().resolve()


def _environment(folder: Path) -> Mapping[str, str]:
    # DEBUG is off, as in production. The folder is absolute: the processes start in another one than this did.
    # WEBHOOKS_ALLOW_PRIVATE: the payee of the story listens on this machine, without TLS.
    # Whoever tries things out here may send many requests a minute.
    # The story of finance staff shows what two people are needed for.
    shown = {"RATE_LIMIT_PER_MINUTE": "60000", "FOUR_EYES": "true"}
    return {**shown, **os.environ, "DEBUG": "false", "EMBEDDED_DIR": str(folder), "WEBHOOKS_ALLOW_PRIVATE": "true"}


def _start(processes: Processes, port: int) -> None:
    """Start what the Procfile starts, the web server on loopback only."""
    processes.start("web", "--workers-kill-timeout", "5", PORT=str(port))
    processes.start("worker", WORKER_CONCURRENCY="2")
    processes.start("webhooks", WEBHOOK_CONCURRENCY="2")
    processes.start("beat")


def _start_mcp(processes: Processes, url: str) -> str:
    """Start what serves models, with the API at `url`; returns its own address."""
    port = ports.pick()
    serving = {"PORT": str(port), "MCP_CONCURRENCY": "1", "ALLOWANCE_URL": url}
    processes.start("mcp", "--workers-kill-timeout", "5", **serving)
    return f"http://{ports.HOST}:{port}"


def _wait_until_ready(api: Api, processes: Processes) -> None:
    deadline = time.monotonic() + _READY_S
    while not api.is_ready():
        processes.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{api.url}/readyz does not say ready after {_READY_S} s.")
        time.sleep(_POLL_S)


def _play(api: Api, screen: Screen, processes: Processes, password: str, mcp_url: str) -> tuple[Payee, list[Link]]:
    try:
        payee = story.play(api, screen, processes, mcp_url)
        return payee, finance_day.play(api, screen, password, processes.check)
    except requests.RequestException:
        time.sleep(_WATCH_S)
        processes.check()  # the reason why nobody answers, if it is this
        raise


def _stay(processes: Processes) -> None:
    while True:
        processes.check()
        time.sleep(_WATCH_S)


@contextmanager
def _ending(screen: Screen, processes: Processes) -> Iterator[None]:
    """End the processes however the block ends."""
    try:
        yield
    finally:
        signals.ignore()
        with suppress(OSError):  # the terminal may be gone
            screen.write("\nStopping ...")
        processes.stop()
        with suppress(OSError):
            screen.line(" done")
