"""A configuration that cannot work is refused at the start, by the name of the variable, never with its value."""

import pytest

from tests.support.configurations import GOOD, SOLANA, check, read_settings


@pytest.mark.parametrize("chains", [{}, SOLANA])
def test_a_complete_configuration_is_accepted_without_anything_embedded(chains):
    done = check({**GOOD, **chains})
    assert done.returncode == 0, done.stderr


def test_every_missing_variable_is_named_at_once():
    done = check({})
    assert done.returncode == 1
    for name in (*(name for name in GOOD if not name.startswith("CHAIN_")), "CHAIN_<ALIAS>_RPC_URLS"):
        assert name in done.stderr, name
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://secret-value@db/x"),
        ("DATABASE_URL", "postgres://user:secret-value/with-a-slash@db.example/x"),
        ("DATABASE_URL", "postgres://user@db.example/x?sslmod=secret-value"),
        ("DATABASE_URL", "postgres://user@db.example/x?atomic_requests=true"),
        ("DATABASE_URL", "postgres://user:1234/secret-value@db.example/x"),
        ("DATABASE_URL", "postgres://user:an@secret-value@db.example/x"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x#"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x#?sslmode=require"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x?sslmode=require#"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example?sslmode=require"),
        ("DATABASE_URL", "pgsql://user:secret-value@db.example/x"),
        ("DATABASE_URL", "$secret-value"),
        ("SECRET_KEY", ""),
        ("REDIS_URL", "redis://:secret-value/with-a-slash@db.example/0"),
        ("REDIS_URL", "redis://:secret-value@broker.example/0?ssl_cert_reqs=required"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_cert_reqs=none"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_cert_reqs=CERT_OPTIONAL"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_check_hostname=false"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_min_version=secret-value"),
        ("REDIS_URL", "redis://:secret-value@broker.example/0;redis://other.example/0"),
        ("REDIS_URL", "redis://:secret-value@broker.example/abc"),
        ("REDIS_URL", "redis://:secret-value@broker.example/1/2"),
        ("REDIS_URL", "redis://:secret-value@broker.example,other.example/0"),
        ("REDIS_URL", "redis://user:1/secret-value@broker.example/0"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0#x"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0#"),
        ("REDIS_URL", "redis+sentinel://:secret-value@one.example,two.example"),
        ("REDIS_URL", "redis+sentinel://:secret-value@one.example,two.example/pay/0/0"),
        ("REDIS_URL", "redis+sentinel://:secret-value@one.example;two.example/pay"),
        ("REDIS_URL", "redis+sentinel://:secret-value@one.example,/pay"),
        ("REDIS_URL", "redis+sentinel://:secret-value/with-a-slash@one.example/pay"),
        ("REDIS_URL", "redis+sentinel://one.example/pay?ssl_ca_certs=secret-value"),
        ("REDIS_URL", "rediss+sentinel://:secret-value@one.example/pay?ssl_cert_reqs=none"),
        ("REDIS_URL", "redis+sentinel://:secret-value@one.example/pay#"),
        ("WEBHOOK_PROXY_URL", "socks5://:secret-value@proxy.example:1080"),
        ("WEBHOOK_PROXY_URL", "http://:secret-value@proxy.example:3128/path"),
        ("WEBHOOK_PROXY_URL", "http://:secret-value@proxy.example:3128?ssl_ca_certs=/ca.pem"),
        ("WEBHOOK_PROXY_URL", "https://:secret-value@proxy.example:3128?verify=no"),
        ("WEBHOOK_PROXY_URL", "http://:secret-value@proxy.example:port"),
        ("WEBHOOK_PROXY_URL", "proxy.example:3128/secret-value"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example/secret-value,https://node.example/secret-value"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example/secret-value,https://NODE.example:443/secret-value/"),
        ("CHAIN_BASE_RPC_URLS", "https://secret-value@node.example,https://another@node.example./"),
        ("CHAIN_BASE_RPC_URLS", "node.example/secret-value"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example:secret-value"),
        ("CHAIN_POLYGON_ESCROW", "secret-value"),
        ("SILENCED_SYSTEM_CHECKS", "allowance.E001"),
        ("REDIS_URL", "secret-value"),
        ("POLICY_SIGNER_ED25519_KEY", "5ec4e7"),
        ("POLICY_SIGNER_ED25519_KEY", "not hex: secret-value"),
        ("POLICY_SIGNER_SECP256K1_KEY", "00" * 32),
        ("POLICY_SIGNER_SECP256K1_KEY", "ff" * 32),
        ("RELAYER_SEED", "33" * 32),
        ("CHAIN_BASE_ESCROW", "secret-value"),
        ("CHAIN_BASE_ESCROW", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA0291a"),
        ("CHAIN_BASE_TOKENS", "USDC=secret-value"),
        ("CHAIN_BASE_TOKENS", "GOLD=0x" + "ab" * 20),
        ("CHAIN_BASE_TOKENS", "USDC"),
        ("CHAIN_BASE_TOKENS", "GOLD="),
        ("CHAIN_BASE_TOKENS", "USDT="),
        ("CHAIN_BASE_MIN_PAYMENT", "0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC="),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=-1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=+1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=1e-2"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=.5"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC= 1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0.0000001"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0.01,USDC=0.02"),
        ("CHAIN_BASE_MIN_PAYMENT", "usdc=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "GOLD=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDT=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "secret-value=1"),
        ("CHAIN_SOLANA_MIN_PAYMENT", "SOL=0.0000000001"),
        ("CHAIN_BASE_ESCROW", ""),
        ("CHAIN_BASE_FINALITY_DEPTH", "secret-value"),
        ("CHAIN_BASE_FINALITY_DEPTH", "0"),
        ("CHAIN_BASE_MAX_TIP_GWEI", "secret-value"),
        ("CHAIN_BASE_MAX_TIP_GWEI", "-1"),
        ("CHAIN_BASE_MAX_TIP_GWEI", "0.0001"),
        ("CHAIN_SOLANA_MAX_TIP_GWEI", "1"),
        ("GAS_BUDGET_PER_AGENT", "secret-value"),
        ("GAS_BUDGET_PER_AGENT", "1e-3"),
        ("GAS_BUDGET_PER_AGENT", "0"),
        ("CHAIN_BASE_FIRST_BLOCK", "-1"),
        ("CHAIN_BASE_FIRST_BLOCK", "0x10"),
        ("CHAIN_BASE_FIRST_BLOCK", "9" * 5000),
        ("CHAIN_SOLANA_ESCROW", ""),
        ("CHAIN_SOLANA_FIRST_BLOCK", ""),
        ("CHAIN_SOLANA_OWNER", ""),
        ("CHAIN_SOLANA_OWNER", "0x" + "ab" * 20),
        ("CHAIN_SOLANA_OWNER", "6secret-value"),
        ("CHAIN_BASE_OWNER", "0x" + "0" * 40),
        ("CHAIN_BASE_OWNER", "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB"),
        ("CHAIN_SOLANA_FINALITY_DEPTH", "3"),
        ("CHAIN_BASE_TOKENS", "USDT=0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        ("CHAIN_SOLANA_ESCROW", "0x" + "ab" * 20),
        ("CHAIN_SOLANA_ESCROW", "5secret-value"),
        ("CHAIN_SOLANA_TOKENS", "USDC=0x" + "ab" * 20),
        ("POLICY_SIGNER_SOLANA_KEY", ""),
        ("POLICY_SIGNER_SOLANA_KEY", "5ec4e7"),
        ("HTTPS", "maybe-secret-value"),
        ("DEBUG", "2"),
        ("RATE_LIMIT_PER_MINUTE", "abc"),
        ("REFUSALS_PER_MINUTE", "0"),
        ("REFUSALS_PER_MINUTE", "10001"),
        ("RELAYERS_PER_CHAIN", "0"),
        ("CHAIN_STATE_MAX_AGE_S", "-1"),
        ("PAYMENT_VALIDITY_S", "59"),
        ("PAYMENT_VALIDITY_S", "3601"),
        ("RECONCILE_STOP_ABOVE", "-0.5"),
        ("FOUR_EYES_ABOVE", "secret-value"),
        ("FOUR_EYES_ABOVE", "secret-value=1"),
        ("FOUR_EYES_ABOVE", "USDC=1,USDC=2"),
        ("FOUR_EYES_ABOVE", "USDC=1,"),
        ("FOUR_EYES_ABOVE", "USDC=-1"),
        ("FOUR_EYES_ABOVE", "USDC=0.0000001"),
        ("RECONCILE_STOP_ABOVE", "1e3"),
        ("RETIRED_RECEIPT_KEYS", "aa"),
        ("WEBHOOK_SECRETS_KEY", "5ec4e7"),
        ("WEBHOOK_SECRETS_KEY", "00" * 32),
        ("WEBHOOK_SECRETS_KEY_FALLBACKS", "66" * 32 + ",secret-value"),
        ("WEBHOOKS_ALLOW_PRIVATE", "secret-value"),
        ("ALLOWED_HOSTS", "https://secret-value.example"),
        ("ALLOWED_HOSTS", "pay.example,secret-value:443"),
        ("METRICS_TOKEN", "secret-value"),
        ("LOG_LEVEL", "secret-value"),
        ("CHAIN_BASE_ESCROW", "0x" + "00" * 20),
        ("CHAIN_SOLANA_ESCROW", "1" * 32),
    ],
)
def test_a_malformed_variable_is_named_and_its_value_is_not_told(name, value):
    problems = " ".join(read_settings({**GOOD, **SOLANA, name: value})["CONFIGURATION_PROBLEMS"])
    assert name in problems
    assert "secret-value" not in problems


@pytest.mark.parametrize("name", ["WEBHOOKS_ALLOW_PRIVATE", "DEBUG"])
def test_what_is_for_development_is_refused_where_nothing_is_embedded(name):
    found = read_settings({**GOOD, name: "true"})
    assert found["CONFIGURATION_PROBLEMS"] == [f"{name} is for development: it must not be set without EMBEDDED."]
    assert found[name] is False
