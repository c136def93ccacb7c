"""What an address asks for is done: TLS to PostgreSQL, and to Redis by each of its two clients."""

import os
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from kombu import Connection

from foundation.environment.configuration import Configuration
from foundation.environment.connections import OF_DATABASE, read_database
from foundation.environment.redis_addresses import read_redis
from tests.support.tls import HOST, Authority, in_front_of
from workshop.localnet import postgres
from workshop.localnet.folder import open_folder


def connect(url):
    """Connect as Django does with this DATABASE_URL; returns whether the connection is encrypted."""
    handler = ConnectionHandler({"default": {**read_database(url), "TIME_ZONE": "UTC", "AUTOCOMMIT": True}})
    connection = handler["default"]
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return connection.connection.pgconn.ssl_in_use
    finally:
        connection.close()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def database(committed):
    """The embedded PostgreSQL, which has no TLS of its own: by its socket, and as a URL on another port."""
    path = postgres.socket_folder(open_folder()) / postgres._SOCKET
    return path, lambda port: f"postgres://{postgres.USER}:a-password@{HOST}:{port}/postgres"


@pytest.mark.parametrize(
    ("asked", "is_encrypted"),
    [
        ("", True),
        ("?sslmode=disable", False),
        ("?sslmode=require", True),
        ("?sslmode=verify-ca&sslrootcert={ca}", True),
        ("?sslmode=verify-full&sslrootcert={ca}&application_name=allowance&connect_timeout=9", True),
    ],
)
def test_the_database_is_connected_to_as_its_url_asks(database, authority, asked, is_encrypted):
    path, url = database
    with in_front_of(path, authority) as port:
        assert connect(url(port) + asked.format(ca=authority.file)) is is_encrypted


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
def test_a_database_with_a_certificate_of_a_stranger_is_refused(database, authority, tmp_path, mode):
    path, url = database
    stranger = Authority(tmp_path)
    with in_front_of(path, authority) as port, pytest.raises(OperationalError, match="certificate verify failed"):
        connect(f"{url(port)}?sslmode={mode}&sslrootcert={stranger.file}")


def test_a_database_with_a_certificate_for_another_host_is_refused_where_its_name_counts(database, tmp_path):
    path, url = database
    elsewhere = Authority(tmp_path, "db.example")
    with in_front_of(path, elsewhere) as port:
        asked = f"{url(port)}?sslrootcert={elsewhere.file}&sslmode="
        assert connect(asked + "verify-ca")
        with pytest.raises(OperationalError, match="does not match host name"):
            connect(asked + "verify-full")


def test_a_database_without_tls_is_refused_where_it_is_required(database):
    path, url = database
    with in_front_of(path, None) as port:
        assert connect(url(port)) is False
        with pytest.raises(OperationalError, match="does not support SSL"):
            connect(url(port) + "?sslmode=require")


@pytest.mark.parametrize("password", ["p#w", "p?w", "p#w?x", "p%23w", "p:w"])
def test_no_password_keeps_what_is_asked_for_behind_it_from_being_read(password):
    read = read_database(f"postgres://user:{password}@db.example/x?sslmode=verify-full&sslrootcert=/ca.pem")
    assert read["PASSWORD"] == password.replace("%23", "#")
    assert (read["USER"], read["HOST"], read["NAME"]) == ("user", "db.example", "x")
    assert read["OPTIONS"] == {**OF_DATABASE, "sslmode": "verify-full", "sslrootcert": "/ca.pem"}


def test_a_host_or_a_name_in_the_options_is_the_one_that_is_connected_to():
    read = read_database("postgresql://db.example:5433/x?host=other.example&port=5434&dbname=y&user=z")
    assert [read[name] for name in ("HOST", "PORT", "NAME", "USER")] == ["other.example", "5434", "y", "z"]
    assert read["OPTIONS"] == OF_DATABASE


def test_a_time_limit_stays_and_a_password_hides():
    read = read_database("postgres://user:hunter22@db.example/x?sslpassword=hunter33&sslmode=require")
    assert read["OPTIONS"] == {**OF_DATABASE, "sslpassword": "hunter33", "sslmode": "require"}
    assert read["PASSWORD"] == "hunter22"
    assert "hunter" not in repr(read)
    assert read_database("postgres://db.example/x?connect_timeout=9")["OPTIONS"]["connect_timeout"] == "9"


# --- Redis ------------------------------------------------------------------------------------------------------------
def ask_both(url):
    """Connect as the limiter and as Celery do; returns what became of each."""
    read = read_redis(url)
    return [_told(lambda: _ask_limiter(read)), _told(lambda: _ask_broker(read))]


def _ask_limiter(read):
    with redis.Redis.from_url(read.url, socket_timeout=5, socket_connect_timeout=5) as client:
        client.ping()


def _ask_broker(read):
    with Connection(read.broker_url, ssl=read.broker_ssl, transport_options={"socket_timeout": 5}) as connection:
        channel: Any = connection.channel()
        channel.client.ping()


def _told(ask):
    try:
        ask()
    except Exception as error:  # noqa: BLE001 - whichever class the client has for it
        return "refused" if "CERTIFICATE_VERIFY_FAILED" in str(error) else repr(error)
    return "accepted"


@pytest.fixture
def broker():
    """The embedded Redis: its port, and a URL with its password for another one."""
    parts = urlsplit(os.environ["REDIS_URL"])
    return parts.port, lambda scheme, port: f"{scheme}://:{parts.password}@{HOST}:{port}/0"


def test_both_clients_accept_a_redis_whose_certificate_is_of_the_authority_that_is_named(broker, authority):
    port, url = broker
    with in_front_of(port, authority) as secured:
        for verifying in ("", "&ssl_cert_reqs=required", "&ssl_cert_reqs=CERT_REQUIRED&ssl_check_hostname=true"):
            asked = url("rediss", secured) + f"?ssl_ca_certs={authority.file}{verifying}"
            assert ask_both(asked) == ["accepted", "accepted"]
    assert ask_both(url("redis", port)) == ["accepted", "accepted"]


def test_both_clients_refuse_a_redis_with_a_certificate_of_a_stranger_or_for_another_host(broker, authority, tmp_path):
    port, url = broker
    with in_front_of(port, authority) as secured:
        assert ask_both(url("rediss", secured)) == ["refused", "refused"]
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path)
        assert ask_both(url("rediss", secured) + f"?ssl_ca_certs={stranger.file}") == ["refused", "refused"]
    elsewhere = Authority(tmp_path / "other", "broker.example")
    with in_front_of(port, elsewhere) as secured:
        assert ask_both(url("rediss", secured) + f"?ssl_ca_certs={elsewhere.file}") == ["refused", "refused"]


def test_the_settings_give_both_clients_what_was_read(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "rediss://:hunter22@broker.example:6380/3?ssl_ca_certs=/ca.pem")
    read = Configuration().read("REDIS_URL")
    assert str(read.broker_url) == "rediss://:hunter22@broker.example:6380/3"
    assert read.broker_ssl == {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": 2, "ssl_check_hostname": True}
    assert "hunter22" not in repr(read)


def test_a_group_of_sentinels_is_read_for_both_clients():
    url = "rediss+sentinel://user:p%40w@one.example:26380,two.example,[::1]:5/pay/3?ssl_ca_certs=/ca.pem"
    read = read_redis(f"{url}&sentinel_username=watch&sentinel_password=hunter22")
    tls = {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": 2, "ssl_check_hostname": True}

    hosts = ("one.example:26380", "two.example", "[::1]:5")
    assert str(read.broker_url) == ";".join(f"sentinel://user:p%40w@{host}/3" for host in hosts)
    assert read.broker_ssl == tls
    assert read.group is not None
    assert read.group.addresses == (("one.example", 26380), ("two.example", 26379), ("::1", 5))
    assert read.group.to_server == {"username": "user", "password": "p@w", "db": 3, "ssl": True, **tls}
    asked = read.broker_options["sentinel_kwargs"]
    assert (asked["username"], asked["password"], asked["ssl"]) == ("watch", "hunter22", True)
    assert asked["retry"].get_retries() == 0
    assert read.broker_options["master_name"] == "pay"
    assert "hunter22" not in repr(read)
    assert "p@w" not in repr(read)
    assert read_redis(str(read.url)) == read


def test_a_single_sentinel_without_a_password_or_tls_is_read():
    read = read_redis("redis+sentinel://sentinel.example/pay")

    assert str(read.broker_url) == "sentinel://sentinel.example/0"
    assert read.broker_ssl is None
    assert read.group is not None
    assert read.group.to_server == {"db": 0}
