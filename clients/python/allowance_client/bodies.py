"""Take the body of an answer as it comes in: neither larger nor slower than is sane."""

import time

import httpx

from allowance_client.steps import Answer, Lost

LARGEST_ANSWER = 16 * 1024 * 1024  # bytes; a page of 100 decisions with the largest metadata is 2 MiB


class Body:
    """The body of one answer, which must be complete by `deadline`, a moment of the monotonic clock."""

    def __init__(self, response: httpx.Response, deadline: float) -> None:
        # It was asked for uncompressed: unpacked, it could be of any size.
        self._fault = "the answer is compressed" if "content-encoding" in response.headers else ""
        self._response = response
        self._deadline = deadline
        self._data = bytearray()

    def wants_more(self) -> bool:
        """Tell whether nothing is wrong so far, even with what comes next."""
        return not self._fault

    def add(self, chunk: bytes) -> None:
        """Take the next piece."""
        self._data += chunk
        if len(self._data) > LARGEST_ANSWER:
            self._fault = "the answer is too large"
        elif time.monotonic() > self._deadline:
            self._fault = "the answer took too long"

    def outcome(self) -> Answer | Lost:
        """Give the answer, or say why there is none."""
        if self._fault:
            return Lost(self._fault)
        headers = {name.lower(): value for name, value in self._response.headers.items()}
        return Answer(self._response.status_code, headers, bytes(self._data))
