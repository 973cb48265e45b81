"""What a number of MariaDB or MySQL means, and that no value of a row is told with it."""

import pytest
from pymysql import err
from sqlalchemy.exc import DBAPIError, InterfaceError

from headrace.connectors.sql.errors import translated
from headrace.errors import SinkRefused, SinkUnavailable, TargetMissing


def said(code, text="x", kind=DBAPIError, **more):
    return translated(kind("INSERT", (), err.DatabaseError(code, text), **more), "table a")


TEMPORARY = [1021, 1040, 1047, 1114, 1180, 1205, 1213, 1290, 1317, 1836, 1927, 1969]
OF_CLIENT = [2002, 2006, 2013]


@pytest.mark.parametrize("code", [*TEMPORARY, *OF_CLIENT, 4031])
def test_what_is_full_locked_away_or_beaten_is_temporary(code):
    assert isinstance(said(code), SinkUnavailable)


@pytest.mark.parametrize("code", [1036, 1054, 1064, 1142, 1146, 1364, 1665, 1792])
def test_for_what_is_gone_or_may_not_be_written_to_no_record_is_to_blame(code):
    assert isinstance(said(code), TargetMissing)


@pytest.mark.parametrize("code", [1048, 1062, 1153, 1264, 1265, 1366, 1406, 1452, 1644, 1690, 4025])
def test_a_refused_value_is_permanent(code):
    assert isinstance(said(code), SinkRefused)


def test_a_savepoint_that_went_with_its_transaction_is_tried_again_and_a_function_is_missing():
    assert isinstance(said(1305, "SAVEPOINT sa_savepoint_1 does not exist"), SinkUnavailable)
    assert isinstance(said(1305, "FUNCTION shop.total does not exist"), TargetMissing)


def test_a_connection_that_was_given_up_is_temporary_whatever_the_number():
    assert isinstance(said(1366, connection_invalidated=True), SinkUnavailable)
    lost = InterfaceError("INSERT", (), err.InterfaceError(0, ""))
    assert isinstance(translated(lost, "t"), SinkUnavailable)


def test_a_client_that_cannot_send_a_value_has_refused_it():
    wrong = DBAPIError("INSERT", (), err.ProgrammingError("nan can not be used with MySQL"))
    assert isinstance(translated(wrong, "t"), SinkRefused)


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        (
            1062,
            "Duplicate entry 'jane for key 'x' for key 'PRIMARY'",
            "a value is refused for key 'PRIMARY' (1062)",
        ),
        (
            1366,
            r"Incorrect string value: 'jane\xF0' for column `h`.`t`.`name` at row 1",
            "a value is refused for column `h`.`t`.`name` at row 1 (1366)",
        ),
        (1406, "Data too long for column 'name' at row 1", None),
        (1690, "BIGINT value is out of range in '(jane + 1)'", "a value is refused (1690)"),
        (1064, "You have an error near 'jane'", "a statement that it cannot read (1064)"),
        (1146, "Table 'h.t' doesn't exist", None),
    ],
)
def test_the_values_that_they_quote_are_left_out(code, text, told):
    assert str(said(code, text)) == f"table a: {told or f'{text} ({code})'}"
