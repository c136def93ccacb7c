"""Somebody who uses the console of a real server."""

from types import TracebackType
from typing import Self

import requests
from django.contrib.auth.models import User
from requests.cookies import RequestsCookieJar

from tests.support.factories import new_name

_PATIENCE_S = 30


class Staff:
    """A superuser with a browser, signed in."""

    def __init__(self, url: str, *, verify: str | bool = True) -> None:
        self.user = User.objects.create_superuser(new_name("person"), password="a password")
        self._console = f"{url}/console/"
        self._browser = requests.Session()
        self._browser.verify, self._browser.trust_env = verify, False
        self.get("login/")
        self.send("login/", username=self.user.username, password="a password", next="/console/")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._browser.close()

    def get(self, page: str) -> str:
        return self._read(self._browser.get(self._console + page, timeout=_PATIENCE_S))

    def send(self, page: str, **form: str) -> str:
        """Send a form; returns the page that is shown then."""
        data = {**form, "csrfmiddlewaretoken": self._browser.cookies["csrftoken"]}
        headers = {"Referer": self._console + page}
        return self._read(self._browser.post(self._console + page, data=data, headers=headers, timeout=_PATIENCE_S))

    @property
    def cookies(self) -> RequestsCookieJar:
        return self._browser.cookies

    def forget(self, cookie: str) -> None:
        self._browser.cookies.pop(cookie, None)

    def _read(self, answer: requests.Response) -> str:
        assert answer.status_code == 200, answer.text
        return answer.text
