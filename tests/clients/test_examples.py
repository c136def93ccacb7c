"""The examples of clients/python run as they stand. On a demo they run in workshop/tests/demo/test_demo.py."""

import os
import signal
import subprocess
import sys

import requests

from services.webhooks.signing_secrets import as_text
from tests.clients.conftest import Customer
from tests.clients.test_verifying import signed
from tests.support.kills import wait_until
from tests.support.ports import free_ports
from tests.support.signed_webhooks import FOREIGN_SECRET, SECRET
from tests.test_project import ROOT

EXAMPLES = ROOT / "clients/python/examples"


def environment(**variables):
    return {**os.environ, "PYTHONPATH": str(ROOT / "clients/python"), **variables}


def test_the_payer_that_is_refused_says_when_it_may_pay(servers, tmp_path, committed):
    customer = Customer(daily_limit="0.25")
    told = {"URL": servers.urls[0], "API_KEY": customer.key, "AGENT": customer.agent.id}
    variables = environment(**{f"ALLOWANCE_{name}": value for name, value in told.items()})
    command = [sys.executable, str(EXAMPLES / "pay.py"), customer.service.id, "0.50", str(tmp_path / "key")]

    runs = [subprocess.run(command, env=variables, capture_output=True, text=True, check=False) for _ in range(2)]

    assert [(run.returncode, run.stderr) for run in runs] == [(1, "")] * 2
    assert "asked: blocked by under_daily_limit" in runs[0].stdout
    assert "refused: 422 budget_exceeded" in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


def test_the_receiver_prints_what_is_genuine_once():
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "receive.py"), "shop", str(port)],
        env=environment(WEBHOOK_SECRET=as_text(SECRET)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: is_listening(url), "the receiver listens")
        posts = [signed(), signed(secrets=[FOREIGN_SECRET]), signed()]
        answers = [requests.post(url, data=body, headers=headers, timeout=30) for headers, body in posts]
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)

    assert [answer.status_code for answer in answers] == [204, 400, 204]
    assert output == "payment.settled pay_1\n"


def is_listening(url):
    try:
        return requests.get(url, timeout=5).status_code
    except requests.ConnectionError:
        return None
