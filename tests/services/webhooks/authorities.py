"""A certificate authority for receivers."""

import datetime as dt
import ssl
from pathlib import Path

import trustme


class Authority:
    """A certificate authority of the test's own."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    def server(self, *names: str, is_expired: bool = False) -> ssl.SSLContext:
        """Certify names (or addresses) for a receiver."""
        now = dt.datetime.now(dt.UTC)
        not_after = now - dt.timedelta(days=1) if is_expired else now + dt.timedelta(days=1)
        certificate = self._ca.issue_cert(*names, not_before=now - dt.timedelta(days=2), not_after=not_after)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        context.sni_callback = lambda connection, name, _: setattr(connection, "asked_for", name)
        return context

    def write_trust(self, folder: Path) -> str:
        """Write what SSL_CERT_FILE names, so that this authority alone is trusted; returns the path."""
        path = folder / "authority.pem"
        self._ca.cert_pem.write_to_path(path)
        return str(path)
