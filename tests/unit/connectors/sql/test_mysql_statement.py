"""The statement for MariaDB and MySQL, and the types of columns that keep what they are given."""

import pytest
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateTable

from headrace.connectors.sql.kinds import narrower_than, table_of
from headrace.connectors.sql.mysql_statement import check_order
from headrace.connectors.sql.statement import upsert_sql
from headrace.errors import ConfigError

TABLE = table_of("scores", {"lead": "text", "score": "bigint", "at": "date"}, ("lead",))
INTO = "INSERT INTO scores (`lead`, score, at) VALUES (%s, %s, %s)"


def sql(update=None, key=("lead",), newest_by=None):
    return upsert_sql(TABLE, key, update, "mysql", newest_by)


def changes(update=None, **more):
    into, changed = sql(update, **more).split(" ON DUPLICATE KEY UPDATE ")
    assert into == INTO
    return changed


def test_without_a_key_every_row_is_new():
    assert sql(key=()) == INTO


def test_without_an_update_the_last_write_wins():
    assert changes() == "`score` = VALUES(`score`), `at` = VALUES(`at`)"


def test_a_table_of_keys_only_keeps_the_first_row_and_hides_no_error():
    table = table_of("seen", {"lead": "text"}, ("lead",))
    assert upsert_sql(table, ("lead",), None, "mysql").endswith(
        "ON DUPLICATE KEY UPDATE `lead` = `seen`.`lead`"
    )


def test_what_is_coming_is_said_in_its_words_but_not_in_a_text():
    expression = "scores.score % 10 + EXCLUDED.score + length('it''s excluded.score')"
    assert changes({"score": expression}) == (
        "`score` = scores.score %% 10 + VALUES(`score`) + length('it''s excluded.score')"
    )


def test_names_in_quotes_and_texts_with_escapes_are_understood():
    expression = """excluded."score" + excluded.`score` + length('it\\'s excluded.score')"""
    assert changes({"score": expression}) == (
        r"`score` = VALUES(`score`) + VALUES(`score`) + length('it\'s excluded.score')"
    )


def test_what_tells_the_newest_is_set_last_since_columns_are_set_one_after_the_other():
    gives_way = "`scores`.`score` IS NULL OR VALUES(`score`) >= `scores`.`score`"
    assert changes(newest_by="score") == (
        f"`at` = IF({gives_way}, VALUES(`at`), `scores`.`at`), "
        f"`score` = IF({gives_way}, VALUES(`score`), `scores`.`score`)"
    )


def test_an_update_may_read_what_is_set_after_it_and_not_what_was_set_before():
    check_order({"score": "scores.score + length(scores.at)", "at": "excluded.at"}, "t")
    check_order({"at": "excluded.at", "score": "scores.score + excluded.at"}, "t")
    with pytest.raises(ConfigError, match=r"put 'score' before it in update"):
        check_order({"at": "excluded.at", "score": "scores.score + length(scores.at)"}, "t")
    with pytest.raises(ConfigError, match=r"put 'score' before it in update"):
        check_order({"at": "excluded.at", "score": "scores.score + length(scores.AT)"}, "t")


def made(columns, key=()):
    return str(CreateTable(table_of("t", columns, key)).compile(dialect=mysql.dialect()))


def test_columns_hold_as_much_as_those_of_the_other_databases():
    kinds = ("text", "bytes", "double", "timestamp", "date", "decimal(38, 9)", "boolean")
    said = made({f"c{number}": kind for number, kind in enumerate(kinds)})
    wanted = ("LONGTEXT", "LONGBLOB", "DOUBLE", "DATETIME(6)", "DATE", "NUMERIC(38, 9)", "BOOL")
    for number, kind in enumerate(wanted):
        assert f"c{number} {kind}" in said


@pytest.mark.parametrize(("parts", "length"), [(1, 255), (2, 255), (3, 250), (10, 75)])
def test_the_texts_of_a_key_are_as_long_as_a_key_may_be(parts, length):
    names = [f"c{number}" for number in range(parts)]
    assert f"c0 VARCHAR({length}) NOT NULL" in made(dict.fromkeys(names, "text"), names)


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        ("text", mysql.VARCHAR(3)),
        ("text", mysql.TEXT()),
        ("text", mysql.VARBINARY(3)),
        ("bytes", mysql.BLOB()),
        ("bigint", mysql.SMALLINT(unsigned=True)),
        ("bigint", mysql.DECIMAL(20, 0)),
        ("bigint", mysql.VARCHAR(9)),
        ("double", mysql.DOUBLE()),
        ("boolean", mysql.TINYINT(1)),
        ("boolean", mysql.BIT(1)),
        ("timestamp", mysql.DATETIME(fsp=6)),
        ("date", mysql.DATE()),
        ("date", mysql.DATETIME()),
        ("decimal(12, 2)", mysql.DECIMAL(12, 2)),
        ("decimal(12, 2)", mysql.VARCHAR(20)),
    ],
)
def test_what_is_kept_or_refused_by_the_database_is_no_matter(kind, there):
    assert narrower_than(kind, there, "mysql") is None


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        ("text", mysql.CHAR(3)),
        ("text", mysql.ENUM("a")),
        ("text", mysql.SET("a")),
        ("text", mysql.INTEGER()),
        ("text", mysql.JSON()),
        ("text", mysql.BINARY(9)),
        ("bytes", mysql.BINARY(9)),
        ("bytes", mysql.TEXT()),
        ("bigint", mysql.FLOAT()),
        ("bigint", mysql.YEAR()),
        ("bigint", mysql.DATE()),
        ("double", mysql.FLOAT()),
        ("double", mysql.DOUBLE(10, 2)),
        ("double", mysql.DECIMAL(10, 2)),
        ("boolean", mysql.VARCHAR(1)),
        ("timestamp", mysql.TIMESTAMP(fsp=6)),
        ("timestamp", mysql.DATETIME()),
        ("timestamp", mysql.DATETIME(fsp=3)),
        ("timestamp", mysql.DATE()),
        ("date", mysql.TIMESTAMP()),
        ("date", mysql.VARCHAR(10)),
        ("decimal(12, 2)", mysql.DECIMAL(12, 1)),
        ("decimal(12, 2)", mysql.DOUBLE()),
        ("decimal(12, 2)", mysql.INTEGER()),
    ],
)
def test_a_column_that_would_change_values_is_told_by_its_type(kind, there):
    assert str(narrower_than(kind, there, "mysql")).startswith(there.__visit_name__)


def test_what_a_column_is_short_of_shows():
    assert narrower_than("timestamp", mysql.DATETIME(fsp=3), "mysql") == "DATETIME(3)"
