"""A developer who runs `python -m allowance_client listen`."""

import os
import queue
import subprocess
import sys
import threading

import requests

PATIENCE_S = 60
LISTEN = (sys.executable, "-m", "allowance_client", "listen")


class Developer:
    """It as a process, in no installation; its lines as they come."""

    def __init__(self, *arguments, **variables):
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [*LISTEN, *arguments],
            env={**kept, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, cwd="/",
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = ""

    def wait_until_it_listens(self):
        self.url = self.line().removeprefix("listening on ")

    def _read(self):
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")

    def line(self):
        """Wait for the next line; "" at the end."""
        return self._lines.get(timeout=PATIENCE_S)

    def post(self, body, headers):
        with requests.Session() as session:
            session.trust_env = False
            return session.post(self.url, data=body, headers=headers, timeout=PATIENCE_S)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()
