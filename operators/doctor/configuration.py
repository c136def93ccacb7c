"""Look at the variables: missing, malformed, misspelt, to no purpose, and what is switched off that protects."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path

from django.conf import settings
from django.core.checks import run_checks

from chains.catalogue import Vm
from chains.chain_settings import KNOWN
from foundation.environment.table import find_setting
from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning

_PAGE = "docs/operate/settings.md"
_NAME = re.compile(r"[A-Z][A-Z0-9_]+(?=[ ,])")
_MEANT = re.compile(r"Is (\w+) meant\?")
# How alike two names are that are taken for the same; more so where the right one is set, too.
_CUTOFF, _CUTOFF_BESIDE = 0.87, 0.92
_ENV_FILE = ".env"
# Of `check --deploy`, what the doctor looks at by itself: equal keys, ways without TLS, misspelt names.
OF_THE_DOCTOR = ("allowance.E002", "allowance.W003", "allowance.W004")


def find_faulty_variables() -> Iterator[Diagnosis]:
    """Name the variables that are missing, malformed, or mean nothing."""
    for problem in settings.CONFIGURATION_PROBLEMS:
        named = _NAME.match(problem)
        yield error(named[0] if named else "variables", problem, _mend(problem, named[0] if named else ""))
    if not settings.CONFIGURATION_PROBLEMS:
        yield ok("variables", "All that must be set are set, and all that are set are well-formed.")


def _mend(problem: str, name: str) -> str:
    if meant := _MEANT.search(problem):
        return f"Rename {name} to {meant[1]}, or remove it."
    if " is not set" in problem and (setting := find_setting(name)) and setting.make:
        return f"Set {name}, from where your keys are kept; for a new installation: python manage.py setup"
    return f"{'Set' if ' is not set' in problem else 'Correct'} {name or 'it'}: {_PAGE} says what it means."


def find_misspelt_names() -> Iterator[Diagnosis]:
    """Find names that resemble one of ours and may be another program's, as `DATABSE_URL` does.

    Beside the right one, too: whoever corrects the one that is not read changes nothing.
    """
    told = " ".join(settings.CONFIGURATION_PROBLEMS)
    unknown = [name for name in os.environ if name not in KNOWN and name not in told]
    found = {name: meant for name in unknown if (meant := _resembles(name))}
    for name, meant in sorted(found.items()):
        state = "is set, too" if os.environ.get(meant) else "is not set"
        says = f"Nothing here reads {name}, and {meant} {state}: did you mean {meant}?"
        yield warning(name, says, f"Rename {name} to {meant}; leave it if another program reads it.")
    if not found:
        yield ok("misspelt names", "No variable's name resembles one that is read.")


def _resembles(name: str) -> str | None:
    close = get_close_matches(name.upper(), KNOWN, n=1, cutoff=_CUTOFF)
    if not close or not os.environ.get(close[0]):
        return close[0] if close else None
    return next(iter(get_close_matches(name.upper(), close, n=1, cutoff=_CUTOFF_BESIDE)), None)


def find_useless_variables() -> Iterator[Diagnosis]:
    """Find variables that are set and do nothing, or nothing any more."""
    found = [(name, why) for name, (is_useful, why) in _PURPOSES.items() if os.environ.get(name) and not is_useful()]
    for name, why in found:
        yield warning(name, f"{name} is set to no purpose: {why}", f"Remove {name}.")
    if not found:
        yield ok("purpose", "Each variable that is set is of use.")


def _serves(vm: Vm) -> bool:
    return any(served.chain.vm is vm for served in settings.CHAINS.values())


def _serves_test_networks() -> bool:
    return all(served.chain.is_test for served in settings.CHAINS.values())


def _tells_people() -> bool:
    return bool(settings.EMAIL_HOST or settings.NOTICE_URLS)


_OLD_KEY = "only rotate_keys reads it, and a key that lies about can be stolen."
# Whether a variable does anything, and why not.
_PURPOSES: dict[str, tuple[Callable[[], bool], str]] = {
    "DEPLOYER_KEY": (_serves_test_networks, "it belongs into the shell that runs deploy_escrow or rotate_keys alone."),
    "DEPOSIT_KEY": (_serves_test_networks, "deposits are made with it on test networks alone."),
    "OLD_RELAYER_SEED": (lambda: False, _OLD_KEY),
    "OLD_POLICY_SIGNER_SOLANA_KEY": (lambda: False, _OLD_KEY),
    "POLICY_SIGNER_SOLANA_KEY": (lambda: _serves(Vm.SOLANA), "no Solana chain is served."),
    "MAX_PRIORITY_FEE_MICRO_LAMPORTS": (lambda: _serves(Vm.SOLANA), "no Solana chain is served."),
    "MAX_FEE_GWEI": (lambda: _serves(Vm.EVM), "no EVM chain is served."),
    "STUCK_AFTER_S": (lambda: _serves(Vm.EVM), "no EVM chain is served."),
    "PAYMENT_VALIDITY_S": (lambda: _serves(Vm.EVM), "no EVM chain is served."),
    "DEFAULT_FROM_EMAIL": (lambda: bool(settings.EMAIL_HOST), "EMAIL_URL is not set, so no e-mail is sent."),
    "CONSOLE_URL": (_tells_people, "neither EMAIL_URL nor NOTICE_URLS is set, so there are no notices with links."),
}  # fmt: skip


def find_open_env_files() -> Iterator[Diagnosis]:
    """See that nobody else reads the files of variables, which hold the keys."""
    paths = {folder.resolve() / _ENV_FILE for folder in (Path.cwd(), settings.BASE_DIR)}
    files = sorted(path for path in paths if path.is_file())
    for path in files:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield error(
                str(path),
                f"It holds keys, and others may read or change it: its mode is {mode:04o}.",
                f"chmod 600 {path}",
            )
        else:
            yield ok(str(path), "Nobody but its owner reads it.")
    if not files:
        yield ok(_ENV_FILE, "There is none here.")


def find_unprotected() -> Iterator[Diagnosis]:
    """Find what protects people and money and is switched off."""
    if settings.EMBEDDED:
        yield skipped("protection", "EMBEDDED is on: this installation is for development, on this machine.")
        return
    for name, (says, mend) in _PROTECTION.items():
        is_off = "*" in settings.ALLOWED_HOSTS if name == "ALLOWED_HOSTS" else not getattr(settings, name)
        yield warning(name, says, mend) if is_off else ok(name, "As it should be.")


_PROTECTION = {
    "HTTPS": ("Passwords and API keys pass in the clear, cookies too.", "Set HTTPS=true"),
    "FOUR_EYES": ("One person alone can approve a payee or move money.", "Set FOUR_EYES=true"),
    "TOTP_REQUIRED": ("A password alone lets people into the console.", "Set TOTP_REQUIRED=true"),
    "ALLOWED_HOSTS": ("Any host name is answered, also that of a forged link.", "Name your hosts in ALLOWED_HOSTS"),
    "METRICS_TOKEN": ("There is no /metrics: no monitoring sees trouble come.", "Set METRICS_TOKEN to a random text"),
}


def find_release_warnings() -> Iterator[Diagnosis]:
    """Carry out `check --deploy`, as `release` does; what is silenced on record is left out."""
    if settings.CONFIGURATION_PROBLEMS or settings.EMBEDDED:
        yield skipped("check --deploy", "It looks at a configuration that is complete and not for development.")
        return
    # What the doctor finds itself stands beside this already.
    found = [
        one
        for one in run_checks(include_deployment_checks=True)
        if not one.is_silenced() and one.id not in OF_THE_DOCTOR
    ]
    for one in found:
        yield (error if one.is_serious(40) else warning)(str(one.id), one.msg, one.hint or _PAGE)
    if not found:
        yield ok("check --deploy", "Nothing to complain of: a release goes through.")
