"""What is run in processes that hold all secrets: what makes their rows, and what prints all that they have."""

PREPARE = """
from django.contrib.auth import get_user_model
from policy.operations import switch_signer
from tests.support.factories import make_agent, make_api_key, make_service
switch_signer(is_signing=True, by="test")
get_user_model().objects.create_superuser("admin", "", {password!r})
service = make_service(webhook_url={url!r})
import json
print(json.dumps([make_agent().pk, service.pk, make_api_key()]))
"""
# What a developer, or a tool that reports errors, prints: all settings, and every variable of every frame.
SHOW = """
import traceback
from contextlib import suppress
from django.conf import settings
from django.db import connection
from foundation.environment.keys import held_key
from chains.evm.derivation import derive_account
from services.served_chains import served_chains
from policy.signer import local_signer
from services.webhooks.signing_secrets import seal
print(vars(settings._wrapped), settings.DATABASES, connection.settings_dict, settings.CHAINS, local_signer().__dict__)
def parts(one):
    names = getattr(one, "__slots__", None) or getattr(one, "__dict__", ())
    return {name: getattr(one, name) for name in names}
print([[(name, part, parts(part)) for name, part in parts(adapter).items()] for adapter in served_chains().values()])
def fail(act):
    try:
        act()
    except Exception as error:
        print("shown:", traceback.format_exc())
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for name, value in frame.f_locals.items():
                with suppress(Exception):
                    print(name, "=", repr(value))
fail(lambda: derive_account(held_key("RELAYER_SEED"), "no number"))
fail(lambda: seal("no bytes", "service"))
fail(lambda: local_signer().cosign_digest("no digest"))
fail(lambda: local_signer().cosign_message(7))
fail(lambda: local_signer().sign_receipt(7))
def use(name):
    secret = held_key(name)
    raise RuntimeError(f"{secret} {secret!r}")
for name in ("RELAYER_SEED", "POLICY_SIGNER_ED25519_KEY", "WEBHOOK_SECRETS_KEY"):
    fail(lambda: use(name))
"""
