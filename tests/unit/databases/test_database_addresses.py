"""Reading a database's URL."""

import pytest

from headrace.databases.addresses import parse, parse_elsewhere
from headrace.errors import ConfigError

SECRET = "s3cret"


def test_a_sqlite_address_is_its_path():
    address = parse("sqlite:////var/lib/store.db")
    assert address.is_sqlite
    assert address.shown == "sqlite:////var/lib/store.db"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_means_psycopg(scheme):
    address = parse(f"{scheme}://me:{SECRET}@db:5433/headrace")
    assert not address.is_sqlite
    assert address.url.drivername == "postgresql+psycopg"
    assert address.shown == "postgresql://db:5433/headrace"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@db/headrace",
        f"postgresql://db/headrace?user=me&password={SECRET}",
    ],
)
def test_a_password_is_never_shown_wherever_it_stands(url):
    address = parse(url)
    assert SECRET not in repr(address) + address.shown
    assert address.without_password(f"user=me password={SECRET}") == "user=me password=***"


@pytest.mark.parametrize(
    "url",
    [
        SECRET,
        "",
        f"mysql://me:{SECRET}@db/headrace",
        f"postgresql://me:x@{SECRET}@db/headrace",
        f"postgresql://me:{SECRET}@db:port/headrace",
        "sqlite://",
        "sqlite:///:memory:",
    ],
)
def test_a_wrong_address_is_refused_without_being_repeated(url):
    with pytest.raises(ConfigError) as refused:
        parse(url)
    assert SECRET not in str(refused.value)
    assert "sqlite:////" in str(refused.value) or "%40" in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("scheme", ["mariadb", "mysql", "mariadb+pymysql", "mysql+pymysql"])
def test_a_sink_may_write_to_a_mariadb_or_mysql_and_no_store_is_in_one(scheme):
    url = f"{scheme}://me:{SECRET}@db:3307/history"
    address = parse_elsewhere(url, "connection history")
    assert address.is_mysql
    assert not address.is_sqlite
    assert address.url.drivername == "mysql+pymysql"
    assert address.shown == f"{scheme.partition('+')[0]}://db:3307/history"
    with pytest.raises(ConfigError, match="the store is of kind"):
        parse(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"mariadb://me:{SECRET}@db", "names no database"),
        (f"mariadb://me:x@{SECRET}@db/history", "more than one @"),
        (f"oracle://me:{SECRET}@db/history", "kind oracle, which is not known"),
    ],
)
def test_a_wrong_address_of_a_sink_is_refused_without_being_repeated(url, said):
    with pytest.raises(ConfigError, match=said) as refused:
        parse_elsewhere(url, "connection history")
    assert SECRET not in str(refused.value)


def test_a_sink_is_given_the_same_databases_as_a_store():
    for url in (f"postgresql://me:{SECRET}@db/history", "sqlite:////var/lib/history.db"):
        assert parse_elsewhere(url, "connection history") == parse(url)
