"""Choose the user that PostgreSQL runs as: it refuses to run as root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workshop.localnet.errors import LocalnetError

_UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class Account:
    """A user to run a server as. `ignores_permissions`: it keeps root's right to enter any folder."""

    uid: int
    gid: int
    ignores_permissions: bool = False

    @classmethod
    def for_server(cls, folder: Path, program: Path) -> "Account":
        """Return the account for a server and give it the folder with the server's data.

        An ordinary user runs the server itself. Root takes `nobody`, and if that user cannot get
        at the folder or the program, because the checkout lies in /root for example, lets it keep
        one right of root's: to ignore file permissions. Nothing outside the folder is changed.
        """
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        try:
            user = pwd.getpwnam(_UNPRIVILEGED)
        except KeyError:
            raise LocalnetError("PostgreSQL does not run as root and there is no user `nobody` to run it as") from None
        account = cls(user.pw_uid, user.pw_gid)
        account.own(folder)
        if account._can_reach(folder) and account._can_run(program):
            return account
        return cls(user.pw_uid, user.pw_gid, ignores_permissions=True)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `subprocess` that change to the account."""
        if os.geteuid() != 0 or self.ignores_permissions:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def command(self, *arguments: str | Path) -> list[str | Path]:
        """Return a command that runs as the account, given `options`."""
        if not self.ignores_permissions:
            return list(arguments)
        change = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        # `access` asks with what the real user may do, and drops the right for that, unless the securebit forbids it.
        keep = ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--"]
        return [*change, *keep, *arguments]

    def own(self, path: Path) -> None:
        """Make the account the owner of a file or folder, which root can do."""
        if path.lstat().st_uid != self.uid:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def _can_reach(self, folder: Path) -> bool:
        return self._succeeds("/bin/sh", "-c", 'cd "$1"', "sh", folder)

    def _can_run(self, program: Path) -> bool:
        return self._succeeds(program, "--version")

    def _succeeds(self, *command: str | Path) -> bool:
        try:
            result = subprocess.run(command, cwd="/", capture_output=True, check=False, **self.options)
        except PermissionError:
            return False
        return result.returncode == 0
