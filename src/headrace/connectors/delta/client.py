"""A Delta table by its client library: made, brought up to a schema, read and committed to.

A commit is of one snapshot: it is the next one after what was read, or there is none. So what was
read of the log before is still the newest when the commit counts. The library could go on by itself
where somebody else was first; it is told not to, since it skips nothing that is there already.

An error does not say that nothing was committed: what runs after a commit, such as a checkpoint,
may fail as well. Each commit bears a name of its own, and after an error it is looked for.

Where the table is, on a disk or in an object store, makes no difference here (`homes.py`). Tables
that want more of a writer than rows (generated columns, constraints, other names for columns in
files) are refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.connectors.delta.data_files import DataFile, paths_of
from headrace.connectors.delta.homes import Home, commit_path
from headrace.connectors.delta.kinds import new_columns
from headrace.connectors.delta.library import BeatenError, library
from headrace.connectors.delta.marks import IdLog
from headrace.errors import ConfigError, TargetMissing

if TYPE_CHECKING:
    import deltalake

#: what a writer of rows need not heed
_HARMLESS = {"appendOnly", "invariants"}
#: commits between two checkpoints, if the table does not say otherwise
_CLEANED_EVERY = 100
#: commits that others may have made a moment ago
_SYNCED_BEFORE = 10


class TableClient:
    """A table, as of its newest commit when it was last looked at.

    Raises:
        CodeNotLoaded: the client library is not installed.
        TargetMissing: the table is not there, or is one that this cannot write to.
        SinkUnavailable: it cannot be read now.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        lib = library()
        with home.told():
            self._identity = home.identity()
            self._table: deltalake.DeltaTable = lib.DeltaTable(
                home.uri, storage_options=home.options
            )
            self._demand_plain()
        self._ids = IdLog(home)
        self._synced = -1
        #: our newest commit, by its number and name
        self._own: tuple[int, str] | None = None

    @property
    def version(self) -> int:
        """The number of the commit that was the newest."""
        return self._table.version()

    def lacking(self, schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
        """Columns of a schema that the table has not; see ``new_columns``.

        Raises:
            ConfigError: the table is another one than the schema says.
        """
        divided = list(self._table.metadata().partition_columns)
        if divided != list(partition_by):
            raise ConfigError(
                f"{self._home.where}: the table is divided by {', '.join(divided) or 'nothing'}, "
                f"which stays; partition_by names {', '.join(partition_by) or 'nothing'}"
            )
        wanted = columns_of(library().Schema.from_arrow(schema))
        return new_columns(columns_of(self._table.schema()), wanted, self._home.where)

    def is_there(self) -> bool:
        """Whether the table is still the one that this has read: by its home, or our commit."""
        number, name = self._own or (self.version, "")
        with self._home.told():
            commit = self._home.read(commit_path(number))
            if commit is None or self._home.identity() != self._identity:
                return False
        self._ids.given(number, commit)
        return _is_of(commit, name) if name else self._identity is not None

    def ids(self) -> Mapping[str, int]:
        """Our transaction ids, as of this snapshot."""
        with self._home.told():
            return self._ids.at(self.version)

    def look(self) -> int:
        """Read our transaction ids up to the newest commit, without the rest; its version.

        What they tell then holds for a commit that follows this version, once ``refresh`` is there.
        """
        with self._home.told():
            self._ids.at(self.version)
            return self._ids.newest()

    def refresh(self) -> None:
        """Look at the newest commit."""
        with self._home.told():
            self._table.update_incremental()
            self._demand_plain()

    def commit(self, files: Sequence[DataFile], ids: Mapping[str, int]) -> None:
        """Make files and ids the next commit after the snapshot, durably.

        Raises:
            BeatenError: there is another next one, and nothing of this is there.
            SinkUnavailable: whether it is there is not known, or nothing of it is.
            TargetMissing: nothing of it is there, and a person has to mend why.
        """
        name, number = uuid.uuid4().hex, self.version + 1
        with self._home.told():
            try:
                self._append(files, ids, name)
            except Exception as error:
                if not _is_of(self._home.read(commit_path(number)), name):
                    if isinstance(error, library().exceptions.CommitFailedError):
                        raise BeatenError from error
                    self._home.left_in_doubt(paths_of(files))
                    raise
            self._own = number, name
            self._sync(number)

    def add(self, schema: pa.Schema, names: Sequence[str]) -> None:
        """Add columns of a schema.

        Raises:
            BeatenError: somebody else has changed the table.
        """
        lib = library()
        fields = [field for field in lib.Schema.from_arrow(schema).fields if field.name in names]
        with self._home.told():
            try:
                self._table.alter.add_columns(fields)
            except lib.exceptions.CommitFailedError as error:
                raise BeatenError from error

    def _append(self, files: Sequence[DataFile], ids: Mapping[str, int], name: str) -> None:
        from deltalake import (  # noqa: PLC0415
            CommitProperties,
            PostCommitHookProperties,
            Transaction,
        )
        from deltalake.transaction import AddAction  # noqa: PLC0415

        self._table.create_write_transaction(
            [
                AddAction(f.path, f.size, f.partition, f.modified_ms, True, f.statistics)
                for f in files
            ],
            "append",
            self._table.schema(),
            self._table.metadata().partition_columns,
            commit_properties=CommitProperties(
                custom_metadata={"headrace": name},
                max_commit_retries=0,
                app_transactions=[Transaction(app_id, number) for app_id, number in ids.items()],
            ),
            # To clean up is to list all of the log, and nothing goes that no checkpoint stands for.
            post_commithook_properties=PostCommitHookProperties(
                cleanup_expired_logs=None if (self.version + 1) % _CLEANED_EVERY == 0 else False
            ),
        )

    def _sync(self, version: int) -> None:
        """Make a commit durable, and those before it, whose writers may not have come so far."""
        first = max(0, version - _SYNCED_BEFORE, self._synced + 1)
        self._home.settle_commits(range(first, version + 1))
        self._synced = version

    def _demand_plain(self) -> None:
        protocol = self._table.protocol()
        wanted = set(protocol.writer_features or ()) - _HARMLESS
        if protocol.min_writer_version in (1, 2) or (
            protocol.min_writer_version == 7 and not wanted
        ):
            return
        told_of = ", ".join(sorted(wanted)) or f"writer version {protocol.min_writer_version}"
        raise TargetMissing(
            f"{self._home.where}: the table wants of a writer what is not had: {told_of}"
        )


def columns_of(schema: Any) -> dict[str, tuple[str, bool]]:
    """Kind of each column in Delta's words, and whether it may be null."""
    return {
        field.name: (field.type.to_json().strip('"'), field.nullable) for field in schema.fields
    }


def _is_of(commit: bytes | None, name: str) -> bool:
    """Whether a commit is the one of this name."""
    return commit is not None and name.encode() in commit
