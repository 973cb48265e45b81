"""The audit log is a ring."""

from contextlib import closing

from headrace.model.credentials import Change
from headrace.store import open_store
from headrace.store.audit import SqlAudit
from headrace.store.database import open_database


def test_each_line_beyond_the_last_drops_the_oldest(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    open_store(url).close()
    with closing(open_database(url)) as database:
        audit = SqlAudit(database, most_lines=3)
        for at_s in range(5):
            audit.note(Change(float(at_s), "key:a", "DELETE /v1/session", None, 204))
        assert [change.at_s for change in audit.changes()] == [4.0, 3.0, 2.0]
        assert [change.id for change in audit.changes()] == [5, 4, 3]


def test_lines_of_a_list_drop_as_many_as_they_are(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    open_store(url).close()
    lines = [Change(float(at_s), "key:a", "POST /v1/tenants", None, 200) for at_s in range(5)]
    with closing(open_database(url)) as database:
        audit = SqlAudit(database, most_lines=3)
        audit.note(*lines[:2])
        audit.note(*lines)
        assert [change.at_s for change in audit.changes()] == [4.0, 3.0, 2.0]
