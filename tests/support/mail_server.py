"""A mail server on this machine that keeps what it is sent: enough of SMTP for Python's client."""

import socketserver
import threading
from email import message_from_bytes
from email.message import Message
from types import TracebackType
from typing import Self


class MailServer:
    """Listens while it is entered. It refuses the recipients that it is told to."""

    def __init__(self, *refused: str) -> None:
        self.mails: list[Message] = []
        self.recipients: list[list[str]] = []
        self.refused = {f"<{one}>" for one in refused}
        server = self

        class Conversation(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                server.converse(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}?tls=no"

    def converse(self, with_client: socketserver.StreamRequestHandler) -> None:
        def say(line: str) -> None:
            with_client.wfile.write(f"{line}\r\n".encode())

        say("220 mail.example")
        to: list[str] = []
        for line in with_client.rfile:
            verb, _, rest = line.decode().strip().partition(" ")
            verb = verb.upper()
            if verb == "RCPT" and rest.split(":")[1] in self.refused:
                say("550 Nobody of this name.")
                continue
            if verb == "RCPT":
                to.append(rest.split(":")[1].strip("<>"))
            elif verb == "DATA":
                say("354 Go on.")
                text = b"".join(iter(with_client.rfile.readline, b".\r\n"))
                self.mails.append(message_from_bytes(text))
                self.recipients.append(to)
                to = []
            say("221 Bye." if verb == "QUIT" else "250 OK")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
