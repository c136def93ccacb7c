"""Start PostgreSQL, Redis and local chains on a laptop, and prepare the chains for payments.

The servers are `localnet`'s. `start()` runs those for which the environment has no URL: PostgreSQL 18, Redis, an EVM
and a Solana node, with our tokens and escrow on the chains. Their data live in `.data` of the checkout, or in the
folder that EMBEDDED_DIR names. The last process that ends stops them. Call it before `environment()`, which says where
the servers are: ports can change at a start.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from workshop.embedded import prepared
from workshop.embedded.keys import keys_of
from workshop.embedded.prepared import Prepared
from workshop.localnet import evm_server, postgres, redis_server, servers, solana_server
from workshop.localnet.errors import LocalnetError as LocalnetError
from workshop.localnet.folder import Folder, open_folder

_EVM, _SOLANA = "CHAIN_EVM_LOCALNET", "CHAIN_SOLANA_LOCALNET"
_EVM_FOLDER, _SOLANA_FOLDER = "evm-localnet", "solana-localnet"
_DEPOSITOR = "DEPOSIT_KEY"
_OWN = (
    "SECRET_KEY",
    "POLICY_SIGNER_ED25519_KEY",
    "POLICY_SIGNER_SECP256K1_KEY",
    "POLICY_SIGNER_SOLANA_KEY",
    "RELAYER_SEED",
    "WEBHOOK_SIGNING_KEY",
    "WEBHOOK_SECRETS_KEY",
)
Progress = Callable[[str], None]


def environment() -> dict[str, str]:
    """Return the environment variables that are not set and that the installation provides.

    Starts nothing. Creates the data folder and its secrets on first use. An empty variable counts
    as not set. Raises `LocalnetError` if the data folder belongs to another user.
    """
    provided = _provided(open_folder())
    # On a chain that the user runs, we know no contracts.
    foreign = [chain for chain in (_EVM, _SOLANA) if not _is_ours(f"{chain}_RPC_URLS", provided)]
    if len(foreign) == len((_EVM, _SOLANA)):
        foreign.append(_DEPOSITOR)
    return {
        name: value
        for name, value in provided.items()
        if not os.environ.get(name) and not name.startswith(tuple(foreign))
    }


def start(progress: Progress = lambda text: print(text, file=sys.stderr)) -> None:  # noqa: T201 - for whoever started this in a terminal
    """Make sure that every server without a URL in the environment runs and is ready.

    Any number of processes may call it, at once and again. Until this process ends it has a claim
    on the servers; when it is the last that has one, it stops them. Raises `LocalnetError`.
    """
    folder = open_folder()
    before = _provided(folder)
    needed = [variable for variable in _SERVERS if _is_ours(variable, before)]
    if not needed:
        return
    # Side by side: each mostly waits for a process of its own, which loads its libraries or makes its data.
    with servers.starting(folder), ThreadPoolExecutor() as pool:
        list(pool.map(lambda variable: _SERVERS[variable](folder, progress), needed))
    # A port that was taken has changed: so has the URL that this process may have been given.
    for name, value in _provided(folder).items():
        if os.environ.get(name) == before[name]:
            os.environ[name] = value


def stop_unused() -> bool:
    """Stop the servers unless a process has a claim on them. Return whether they are stopped."""
    return servers.stop_unused(open_folder())


def ensure_evm(folder: Folder, progress: Progress) -> None:
    """Make sure that the EVM node runs, with our tokens and escrow. Hold the start lock."""
    if known := prepared.find(folder, _EVM_FOLDER):
        evm_server.ensure(folder, known.faucet, progress)
        return
    from workshop.embedded.evm_setup import EvmSetup  # noqa: PLC0415 - what is prepared takes none of its libraries

    setup = EvmSetup.of(folder)
    evm_server.ensure(folder, setup.deployer.address, progress)
    setup.ensure(evm_server.url(folder), progress)
    prepared.keep(folder, _EVM_FOLDER, Prepared(setup.deployer.address, {}))


def ensure_solana(folder: Folder, progress: Progress) -> None:
    """Make sure that the Solana node runs, with our mints and escrow. Hold the start lock."""
    if known := prepared.find(folder, _SOLANA_FOLDER):
        solana_server.ensure(folder, known.faucet, progress)
        return
    from workshop.embedded.solana_setup import SolanaSetup  # noqa: PLC0415 - as above

    setup = SolanaSetup.of(folder)
    faucet = str(setup.deployer.pubkey())
    solana_server.ensure(folder, faucet, progress)
    setup.ensure(solana_server.url(folder), progress)
    prepared.keep(folder, _SOLANA_FOLDER, Prepared(faucet, setup.variables))


# How to start a server, by the variable that makes it unnecessary.
_SERVERS = {
    "DATABASE_URL": postgres.ensure,
    "REDIS_URL": redis_server.ensure,
    f"{_EVM}_RPC_URLS": ensure_evm,
    f"{_SOLANA}_RPC_URLS": ensure_solana,
}


def _provided(folder: Folder) -> dict[str, str]:
    keys = keys_of(folder)
    return {
        "DATABASE_URL": postgres.url(folder),
        "REDIS_URL": redis_server.url(folder),
        **{name: keys[name] for name in _OWN},
        f"{_EVM}_RPC_URLS": evm_server.url(folder),
        f"{_EVM}_ESCROW": keys["EVM_ESCROW"],
        f"{_EVM}_TOKENS": keys["EVM_TOKENS"],
        f"{_SOLANA}_RPC_URLS": solana_server.url(folder),
        **_solana_variables(folder),
        # The deployer owns the test tokens, and can mint more of them.
        _DEPOSITOR: keys["EVM_DEPLOYER_KEY"],
    }


def _solana_variables(folder: Folder) -> dict[str, str]:
    if known := prepared.find(folder, _SOLANA_FOLDER):
        return known.variables
    from workshop.embedded.solana_setup import SolanaSetup  # noqa: PLC0415 - what is prepared takes none of its libraries

    return SolanaSetup.of(folder).variables


def _is_ours(name: str, provided: dict[str, str]) -> bool:
    """Whether a variable is unset, or a process above us has set it to what we provide."""
    return (os.environ.get(name) or provided[name]) == provided[name]
