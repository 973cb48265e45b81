"""What the errors of MariaDB and MySQL mean, and how much of their text may be told.

They go by number: most of theirs share one SQLSTATE, which says nothing. Many quote the value or
the statement they are about, which belong to a tenant; of these the column or the key is told.
What is not known is taken to be about the data, as with the other databases.
"""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, InterfaceError

from headrace.errors import HeadraceError, SinkRefused, SinkUnavailable, TargetMissing

#: no more disk, memory, connections or files now, a lock that is not to be had, a deadlock, a
#: statement or a session that was ended, a node of a cluster that is not ready or was beaten, a
#: server that may only be read (as one that another takes over from)
_TEMPORARY = frozenset(
    {1020, 1021, 1026, 1030, 1037, 1038, 1040, 1041, 1042, 1043, 1047, 1053, 1079, 1080}
    | {1099, 1114, 1129, 1135, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1192, 1203, 1205, 1206}
    | {1213, 1223, 1226, 1290, 1317, 1412, 1613, 1614, 1689, 1836, 1927, 1969, 3024, 3101}
    | {3572, 4031}
)
#: what of those the client says itself: it was not reached, or the answer did not come
_OF_CLIENT = range(2000, 3000)
#: no such table, column, database, function or engine, no right to it, a table that may only be
#: read or is damaged, and what is wrong with a statement whatever its values
_MISSING = frozenset(
    {1016, 1017, 1033, 1034, 1035, 1036, 1044, 1045, 1046, 1049, 1051, 1054, 1064, 1109, 1136, 1142}
    | {1143, 1144, 1145, 1146, 1148, 1194, 1195, 1227, 1286, 1305, 1347, 1356, 1364, 1370}
    | {1449, 1459, 1471, 1665, 1712, 1792, 1812, 1813, 1814, 1877, 1932}
)
#: a savepoint that is not there: its transaction was ended by a deadlock before
_NO_SUCH_THING = 1305
#: about a statement, which holds the values
_SYNTAX = 1064
#: of those about data: they name columns and constraints, and no values
_WITHOUT_VALUES = frozenset({1048, 1153, 1264, 1265, 1406, 1451, 1452, 3819, 4025})
_NAMES_AFTER = (" for column ", " for key ", " of column ")


def is_mysqls(error: DBAPIError) -> bool:
    """Whether it is of one of these databases."""
    return type(error.orig).__module__.startswith("pymysql")


def translated(error: DBAPIError, where: str) -> HeadraceError:
    """Say it in the words of ``headrace.errors``; never the values of a row."""
    args = error.orig.args if error.orig is not None else ()
    code = args[0] if args and isinstance(args[0], int) else None
    text = " ".join(str(args[-1]).split()) if args else type(error.orig).__name__
    if code is None:
        kind = SinkUnavailable if _is_lost(error) else SinkRefused
        return kind(f"{where}: {text}")
    lost_savepoint = code == _NO_SUCH_THING and "SAVEPOINT" in text
    if _is_lost(error) or code in _TEMPORARY or code in _OF_CLIENT or lost_savepoint:
        return SinkUnavailable(f"{where}: {text} ({code})")
    if code in _MISSING:
        said = "a statement that it cannot read" if code == _SYNTAX else text
        return TargetMissing(f"{where}: {said} ({code})")
    return SinkRefused(f"{where}: {_without_values(code, text)} ({code})")


def _is_lost(error: DBAPIError) -> bool:
    return error.connection_invalidated or isinstance(error, InterfaceError)


def _without_values(code: int, text: str) -> str:
    if code in _WITHOUT_VALUES:
        return text
    # The last one is the server's own; a value may hold such words as well.
    places = [text.rfind(words) for words in _NAMES_AFTER]
    return f"a value is refused{text[max(places) :] if max(places) >= 0 else ''}"
