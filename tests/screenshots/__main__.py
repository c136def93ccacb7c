"""`python -m tests.screenshots [--json FILE]`: take the documents' pictures of the console, each in four ways.

Without a file it runs the demo in a folder of its own; the file is what `manage.py demo --json FILE` writes.
"""

import argparse
import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Literal

import requests
from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.screenshots.pages import PAGES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "images" / "console"
SIZES = {"desktop": ViewportSize(width=1440, height=900), "phone": ViewportSize(width=390, height=844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_START_S = 300
_HISTORY = "seed_history --payments 3000"
_AT_ONCE = 9
_PARENTS = {
    "agent-research": "team-field-work",
    "agent-forecasts-r2": "team-field-work",
    "agent-translations-r2": "team-field-work",
    "agent-research-1": "agent-research",
    "agent-support-r2": "agent-research",
    "agent-travel-r2": "agent-translations-r2",
}
_ADDED_UP_S = 75  # the worker adds up for the front page once a minute


def main() -> None:
    """Take every picture, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    parser.add_argument("--json", type=Path, help="what a running demo has written of itself")
    parser.add_argument("names", nargs="*", help=f"only these: {', '.join(PAGES)}")
    options = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    if options.json:
        take(json.loads(options.json.read_text()), options.names or PAGES)
    else:
        with running_demo() as access:
            take(access, options.names or PAGES)


@contextmanager
def running_demo() -> Iterator[dict[str, Any]]:
    """Run the demo, with a history, until the block ends; yields how to reach it."""
    with tempfile.TemporaryDirectory(prefix="allowance-pictures-", ignore_cleanup_errors=True) as folder:
        access = Path(folder) / "access.json"
        environment = {**os.environ, "EMBEDDED": "true", "EMBEDDED_DIR": f"{folder}/data"}
        command = [sys.executable, "manage.py", "demo", "--json", str(access)]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as demo:
            try:
                deadline = time.monotonic() + _START_S
                while not access.exists():
                    if demo.poll() is not None or time.monotonic() > deadline:
                        sys.exit("The demo did not come up.")
                    time.sleep(0.5)
                found = json.loads(access.read_text())
                subprocess.run([*shlex.split(found["manage"]), *_HISTORY.split()], check=True)
                make_tree(found)
                pay_at_once(found)
                ask_a_person(found)
                time.sleep(_ADDED_UP_S)
                yield found
            finally:
                demo.terminate()


def make_tree(access: dict[str, Any]) -> None:
    """Put agents that there are under others: one of these is new, and one is paused."""
    manage = shlex.split(access["manage"])
    made = "create_agent team-field-work --asset=USDC --max-per-payment=5 --daily-limit=15 --weekly-limit=60"
    subprocess.run([*manage, *made.split()], check=True)
    for agent, parent in _PARENTS.items():
        subprocess.run([*manage, "set_policy", agent, f"--parent={parent}"], check=True)


def pay_at_once(access: dict[str, Any]) -> None:
    """Pay several times at once: some of these payments share a transaction."""

    def pay_number(number: int) -> None:
        body = {"agentId": "agent-research", "service": "weather-api", "amount": f"0.0{number}", "asset": "USDC"}
        pay(access, f"at-once-{number}", {**body, "reason": "A forecast"})

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(pay_number, range(1, _AT_ONCE + 1)))


def ask_a_person(access: dict[str, Any]) -> None:
    """Ask for a payment that a person has to approve, and that nobody answers."""
    subprocess.run([*shlex.split(access["manage"]), "set_policy", "agent-research", "--approval-above=3"], check=True)
    body = {"agentId": "agent-research", "service": "weather-api", "amount": "4.10", "asset": "USDC"}
    said = {"reason": "Forecasts of the next four weeks, for the harvest", "metadata": {"order": "T-118"}}
    pay(access, "weeks-118", {**body, **said})


def pay(access: dict[str, Any], key: str, body: dict[str, Any]) -> None:
    """Request a payment."""
    headers = {"Authorization": f"Bearer {access['apiKey']}", "Idempotency-Key": key}
    requests.post(f"{access['url']}/v1/payments/request", json=body, headers=headers, timeout=60).raise_for_status()


def take(access: dict[str, Any], names: Any) -> None:
    """Write the pictures of these pages, light and dark, of a desktop and of a phone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme, size in product(THEMES, SIZES):
            context = browser.new_context(
                base_url=access["url"], viewport=SIZES[size], color_scheme=theme, reduced_motion="reduce"
            )
            page = context.new_page()
            is_signed_in = False
            for name in names:
                if name != "sign-in" and not is_signed_in:
                    sign_in(page, access["console"])
                    is_signed_in = True
                open_page(page, *PAGES[name])
                photograph(page, f"{name}-{theme}-{size}")
            context.close()


def photograph(page: Page, name: str) -> None:
    """Write a picture as WebP: Chromium's PNG of the same is four times as large."""
    devtools = page.context.new_cdp_session(page)
    shot = devtools.send("Page.captureScreenshot", {"format": "webp", "quality": 75})
    (PICTURES / f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))
    devtools.detach()
    sys.stdout.write(f"{name}\n")


def sign_in(page: Page, console: dict[str, str]) -> None:
    """Sign in with a name and a password: the demo asks for no second factor."""
    page.goto("/console/")
    page.locator("main input[type=text]").fill(console["username"])
    page.locator("main input[type=password]").fill(console["password"])
    page.locator("main button[type=submit]").first.click()
    page.locator("#sidebar").wait_for(state="attached")


def open_page(page: Page, address: str, *clicks: str) -> None:
    """Open an address and go on by clicks, each on the first element that a selector finds."""
    page.goto(address)
    for selector in clicks:
        page.locator(selector).first.click()
        page.wait_for_load_state("networkidle")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")


if __name__ == "__main__":
    main()
