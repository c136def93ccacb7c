"""Requests as bytes, and whether their answers are ones that the document describes."""

import json
from dataclasses import dataclass
from typing import Any

import requests
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from tests.support.fake_chain import PATIENCE_S
from tests.support.wire import Raw

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request. `headers` are added to those that every request needs."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes = b""

    def __bytes__(self) -> bytes:
        head = [
            self.method + b" " + self.target + b" HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close",
            b"Content-Length: %d" % len(self.body), *(name + b": " + value for name, value in self.headers),
        ]  # fmt: skip
        return b"\r\n".join(head) + b"\r\n\r\n" + self.body


class Document:
    """The OpenAPI document of a server."""

    def __init__(self, url: str) -> None:
        self._document = requests.get(f"{url}/v1/openapi.json", timeout=PATIENCE_S).json()
        self._operations = {
            operation["operationId"]: operation
            for path in self._document["paths"].values()
            for operation in path.values()
        }

    def check(self, operation_id: str, answer: Raw) -> None:
        """Assert that an operation may answer so: status, headers, body, and the error's code."""
        operation = self._operations[operation_id]
        assert str(answer.status) in operation["responses"], f"{operation_id} is not documented to answer so: {answer}"
        documented = operation["responses"][str(answer.status)]
        self._validate(documented["content"]["application/json"]["schema"], json.loads(answer.body))
        assert "location" not in answer.headers or "Location" in documented["headers"]
        if answer.status >= 400:
            examples = documented["content"]["application/json"]["examples"].values()
            codes = [example["value"]["error"]["code"] for example in examples]
            assert answer.error["code"] in codes, answer
        self.check_any(answer)

    def check_any(self, answer: Raw) -> None:
        """Assert what every answer promises, also of an address that does not exist."""
        assert answer.status < 500, answer
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        self._validate(self._document["components"]["headers"]["RequestId"]["schema"], answer.headers["x-request-id"])
        if answer.status >= 400:
            self._validate({"$ref": "#/components/schemas/ErrorResponse"}, json.loads(answer.body))

    def _validate(self, schema: Any, value: Any) -> None:
        Draft202012Validator({**schema, "components": self._document["components"]}).validate(value)
