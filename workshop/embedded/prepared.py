"""What was prepared on a local chain, so that a process which finds it so loads none of the chain's libraries.

Each process of an installation asks where the servers are, and whether the chains are ready. Loading what prepares
chains takes twice as long as Django itself.
"""

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from workshop.embedded.keys import keys_of
from workshop.localnet.folder import ROOT, Folder

ESCROW_ARTIFACT = ROOT / "chains/contracts/escrow.json"
TOKEN_ARTIFACT = Path(__file__).parent / "contracts/test_token.json"
# Beside the keys, what the environment can ask for.
_ASKED_FOR = ("RELAYERS_PER_CHAIN", "CHAIN_SOLANA_LOCALNET_OWNER")


@dataclass(frozen=True)
class Prepared:
    """A chain as it stands: `faucet` had all coins at first, `variables` tell the settings of what is there."""

    faucet: str
    variables: dict[str, str]


def find(folder: Folder, chain: str) -> Prepared | None:
    """Find what was kept of a chain; None: nothing, or for other keys or contracts than today's."""
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        kept = json.loads(_file(folder, chain).read_text())
        if kept["asked"] == _asked(folder):
            return Prepared(**kept["prepared"])
    return None


def keep(folder: Folder, chain: str, prepared: Prepared) -> None:
    """Keep what a chain is now. It lies with the chain's own data, and goes with them."""
    content = json.dumps({"asked": _asked(folder), "prepared": asdict(prepared)})
    draft = _file(folder, chain).with_suffix(".new")
    draft.write_text(content)
    draft.replace(_file(folder, chain))


def _file(folder: Folder, chain: str) -> Path:
    return folder.path / chain / "prepared.json"


def _asked(folder: Folder) -> str:
    """Name by a digest all that chains are prepared for: keys, what the environment asks for, and the contracts."""
    keys = keys_of(folder)
    wanted = [keys, {name: os.environ.get(name, "") for name in (*keys, *_ASKED_FOR)}]
    contracts = b"".join(path.read_bytes() for path in (ESCROW_ARTIFACT, TOKEN_ARTIFACT) if path.exists())
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode() + contracts).hexdigest()
