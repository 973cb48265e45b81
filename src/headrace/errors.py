"""Every error Headrace raises, as one tree.

A loop that must go on for a thousand tenants cannot read messages: it has to know from the type
alone whether to try again or to stop one lane and tell somebody. So there are two branches, and
every foreign exception is translated into one of them at the door of the room that met it::

    HeadraceError
    ├── Temporary                  try again after retry_after_s; nothing is wrong with the data
    │   ├── BrokerUnavailable      no Kafka broker answers
    │   ├── LeaderUnknown          one partition has no leader for a moment
    │   ├── StoreUnavailable       the database does not answer or is locked
    │   │   └── OutcomeUnknown     the answer to a commit was lost; the store knows, so look there
    │   ├── SinkUnavailable        a sink is down or asks us to slow down
    │   │   ├── ConnectionDown     one of the servers of `connections` is, as a sink is prepared
    │   │   └── TenantsSinkSlow    one tenant's own database let others wait, and was given up
    │   ├── FolderNotShared        an executor does not see the folder that all are to write to
    │   ├── RegistryUnavailable    the schema registry does not answer, or not yet with a schema
    │   ├── CodeNotLoaded          an executor cannot load a use case: a package is missing, say
    │   │   └── CodeNotFetched     large code that was sent for all waves of a version is not there
    │   ├── HandlerSlow            a call was ended early so that neighbours need not wait
    │   └── TaskLost               Spark lost the task, its executor or its Python worker
    │       └── ReadOtherwise      records lost with an executor are others when they are read again
    └── Permanent                  trying again changes nothing; a person has to decide
        ├── ConfigError            a file, a flag or a use case is wrong
        │   ├── StoreUnusable      a table of the store is missing, its file damaged, say
        │   ├── UnknownName        a tenant, stream or use case that nobody added
        │   └── NotAllowed         somebody else has to decide that
        ├── StoreTooNew            the database was written by a later Headrace
        ├── Fenced                 another driver holds every stream now
        ├── EngineStopped          Spark has ended; only a new process can have another
        ├── ServerError            an embedded server could not start
        ├── OffsetOutOfRange       Kafka no longer has, or never had, the offset
        ├── TopicMissing           the topic is not there
        ├── TopicRecreated         the topic was deleted and made again under the same name
        ├── HandlerError           a use case raised
        ├── HandlerHung            a use case did not come back within its handler_timeout
        ├── WorkerKilled           the Python worker died while it handled this stream
        ├── BadRecord              a use case refused one record
        ├── SchemaUnknown          no registry has the schema that a record names
        ├── WrongSchema            a handler returned what its sink cannot take
        ├── SinkRefused            the sink refused the data itself
        ├── StateRefused           a handler saves or asks for state that cannot be kept
        ├── StateFull              a tenant has as much state in a use case as it may
        ├── TargetMissing          what a sink writes to is not there
        └── VerifyError            a check of results found a difference

Our own broken invariants raise ``AssertionError`` and are never caught to go on.
"""

from __future__ import annotations

from collections.abc import Iterator


class HeadraceError(Exception):
    """Something went wrong in Headrace."""

    def __init__(self, message: str | None = None) -> None:
        """Take ``message``; without one the class docstring is the message."""
        super().__init__(message or (type(self).__doc__ or "").strip())


class Temporary(HeadraceError):
    """This may work if tried again."""

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        """Take the wait the other side asked for, if it named one."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BrokerUnavailable(Temporary):
    """No Kafka broker answers."""


class LeaderUnknown(Temporary):
    """A partition has no leader at the moment."""


class StoreUnavailable(Temporary):
    """The store does not answer."""


class OutcomeUnknown(StoreUnavailable):
    """The answer to a commit was lost: it may have happened or not, and the store knows which."""


class SinkUnavailable(Temporary):
    """The sink does not answer or asks to slow down."""


class ConnectionDown(SinkUnavailable):
    """A server of ``connections`` does not answer while a sink is prepared for it."""


class TenantsSinkSlow(SinkUnavailable):
    """What one tenant alone writes to let others wait, and came to nothing; tried again, alone."""


class RunsApart(Temporary):
    """The handler of a recorded wave of frames raised: this tenant is to run under an own id."""


class FolderNotShared(Temporary):
    """An executor does not see the folder that it is to share with the driver; it does nothing."""


class RegistryUnavailable(Temporary):
    """The schema registry does not answer, or not yet with what is asked for."""


class SchemaUnanswered(RegistryUnavailable):
    """The schema registry answers, and has no answer to this, such as one that is too large."""


class CodeNotLoaded(Temporary):
    """An executor cannot load a use case, because a package is missing there, or it is slow."""


class CodeNotFetched(CodeNotLoaded):
    """A worker does not find the code that was sent once for all waves; it is sent once more."""


class HandlerSlow(Temporary):
    """A stream needs far longer than predicted, and others wait; it is tried again, alone."""


class TaskLost(Temporary):
    """Spark lost the task, its executor or its Python worker."""


class ReadOtherwise(TaskLost):
    """Records come to something else when they are read again than they did before."""


class Permanent(HeadraceError):
    """Trying again will not help."""


class ConfigError(Permanent):
    """A configuration is wrong."""


class StoreUnusable(ConfigError):
    """The store cannot be used as it is: a table is missing, its file is damaged, say."""


class UnknownName(ConfigError):
    """Nobody added a tenant, stream or use case of that name."""

    def __init__(self, message: str | None = None, *, kind: str = "", name: str = "") -> None:
        """Take what it would be (``tenant``, ``use case``, ``stream``) and its name, to be guessed.

        They do not survive the way to another process, where nobody can ask who types.
        """
        super().__init__(message)
        self.kind, self.name = kind, name


class NotAllowed(ConfigError):
    """Somebody else has to decide that."""


class SchemaReferred(ConfigError):
    """A schema that another one refers to cannot be deleted."""


class SchemaIdTaken(ConfigError):
    """An id that is to be imported is that of another schema."""


class SchemasFull(ConfigError):
    """A tenant or a subject has as many schemas as it may."""


class StoreTooNew(Permanent):
    """The store was written by a later version of Headrace; upgrade this one."""


class Fenced(Permanent):
    """Another driver holds every stream now."""


class EngineStopped(Permanent):
    """Spark has ended, and with it all that this process can do; start it again."""


class ServerError(Permanent):
    """An embedded server could not start."""


class OffsetOutOfRange(Permanent):
    """Kafka no longer has, or never had, the offset asked for."""


class TopicMissing(Permanent):
    """The topic is not there."""


class TopicRecreated(Permanent):
    """The topic was deleted and made again under the same name."""


class LaneExpired(Permanent):
    """A lane is not listed by its log any more, and was not read to its end."""


class RecordUnreadable(Permanent):
    """The Kafka client cannot hand out a record, such as one with a header name that is not text.

    Its place, key, value and timestamp (in milliseconds since 1970) are known, its headers are not.
    """

    def __init__(
        self,
        message: str,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Take the record's offset, and of the rest what there is."""
        super().__init__(message)
        self.offset, self.key, self.value, self.timestamp_ms = offset, key, value, timestamp_ms

    def __reduce__(self) -> tuple[type[RecordUnreadable], tuple[object, ...]]:
        """Survive the way back from a Spark task, with the record."""
        return (RecordUnreadable, (str(self), self.offset, self.key, self.value, self.timestamp_ms))


class HandlerError(Permanent):
    """A use case raised an exception."""


class HandlerHung(Permanent):
    """A use case did not come back within its ``handler_timeout``."""


class WorkerKilled(Permanent):
    """The Python worker died while a use case handled this stream."""


class BadRecord(Permanent):
    """A use case refused one record.

    Raise it from a handler to name the culprit: everything before ``row`` is done and committed,
    the record itself is kept with its bytes, and only its lane stops, or not even that, as
    ``bad_record`` of the use case says.
    """

    def __init__(self, row: int, reason: str) -> None:
        """Take the row of the table the handler was given, counted from 0, and why it is bad."""
        super().__init__(f"bad record in row {row}: {reason}")
        self.row = row
        self.reason = reason

    def __reduce__(self) -> tuple[type[BadRecord], tuple[int, str]]:
        """Survive the way back from a Spark task, with both arguments."""
        return (BadRecord, (self.row, self.reason))


class SchemaUnknown(Permanent):
    """No registry has the schema that a record names."""


class WrongSchema(Permanent):
    """A handler returned a table that its sink cannot take, or saves what its state has not."""


class SinkRefused(Permanent):
    """The sink refused the data itself."""


class StateRefused(Permanent):
    """A handler saves or asks for state that cannot be kept, such as one under a null."""


class StateFull(Permanent):
    """A tenant has as much state in a use case as it may."""


class TargetMissing(Permanent):
    """What a sink writes to for a tenant is not there; no record is to blame."""


class VerifyError(Permanent):
    """A check of results found a difference."""


def no_tenant(name: str) -> UnknownName:
    """Nobody added it; every part that looks for one says the same."""
    return UnknownName(
        f"there is no tenant {name}; 'headrace tenants add {name}' adds it",
        kind="tenant",
        name=name,
    )


def no_use_case(name: str) -> UnknownName:
    """Nobody deployed it."""
    return UnknownName(
        f"there is no use case {name}; 'headrace use-cases deploy {name}' deploys it from the file",
        kind="use case",
        name=name,
    )


def no_stream(names: str) -> UnknownName:
    """Nobody added it, or them."""
    return UnknownName(
        f"there is no stream {names}; 'headrace streams list' shows them", kind="stream", name=names
    )


def other_topic(name: str, known: str, asked: str) -> ConfigError:
    """It was deployed to read another one."""
    return ConfigError(
        f"use case {name} reads topic {known}, and its positions mean nothing in {asked}; deploy "
        "it under another name"
    )


def shared_topic(topic: str, one: tuple[str, str], other: tuple[str, str]) -> ConfigError:
    """Two streams, each a use case and a tenant, would be given what is one tenant's."""
    (use_case, tenant), (its_use_case, its_tenant) = one, other
    return ConfigError(
        f"topic {topic} would be of two tenants: of {tenant} as use case {use_case} reads "
        f"it, and of {its_tenant} as {its_use_case} does; deploy one of the two under "
        "another name with a topic that no two tenants can have, such as {tenant}.visits"
    )


def reserved_name(name: str) -> ConfigError:
    """Somebody is to be called as only the tenant of topics for all is."""
    return ConfigError(
        f"tenant {name}: the name is reserved for topics without {{tenant}}, and is there by "
        "itself as soon as a use case that reads one is deployed; give the customer another name"
    )


def name_is_a_customers(name: str, use_case: str, topic: str) -> ConfigError:
    """A customer has the name that the tenant of topics for all is to have."""
    return ConfigError(
        f"use case {use_case} reads topic {topic}, which has no {{tenant}}, so its stream is of "
        f"tenant {name}; and an earlier version let a customer have that name. Give that one "
        f"another: 'headrace tenants add NAME', then 'headrace tenants remove {name}'; then "
        "deploy again"
    )


def removed_for_all(name: str, use_case: str, topic: str) -> ConfigError:
    """A use case is to have a stream of the tenant of topics for all, which somebody removed."""
    return ConfigError(
        f"use case {use_case} reads topic {topic}, which has no {{tenant}}, so its stream is of "
        f"tenant {name}, and that was removed; 'headrace tenants add {name}' starts it afresh, "
        "with the streams of all such use cases; then deploy again"
    )


def no_such_stream(tenant: str, use_case: str, topic: str, other: str) -> ConfigError:
    """A use case has no stream of this tenant, as its topic is not one of it."""
    return ConfigError(
        f"use case {use_case} reads topic {topic}, of which {other}; tenant {tenant} has no "
        "stream of it"
    )


def no_customer(name: str) -> ConfigError:
    """A credential is to be of a tenant that is no customer."""
    return ConfigError(
        f"tenant {name} is that of topics without {{tenant}}, with records of all customers, and "
        "no credential is of it; role operator or viewer sees its streams"
    )


def tenant_removed(name: str) -> ConfigError:
    """It is not there any more."""
    return ConfigError(f"tenant {name} was removed; 'headrace tenants add {name}' starts it afresh")


class AskedToEnd(SystemExit):
    """Somebody asked this process to end: no fault, and who catches foreign exits lets it by."""


def ended_key(prefix: str) -> ConfigError:
    """A key is to have a successor, and has ended already."""
    return ConfigError(f"key {prefix} does not work any more; create another one")


def last_key(role: str) -> ConfigError:
    """Nobody could come in any more."""
    return ConfigError(f"this is the last key of an {role} that works; create another one first")


def stream_removed(tenant: str, use_case: str) -> ConfigError:
    """It is not there any more."""
    return ConfigError(
        f"stream {tenant}/{use_case} was removed; 'headrace streams add {tenant} {use_case}' "
        "starts it afresh"
    )


def lanes_divided(tenant: str, use_case: str) -> Temporary:
    """A seek was planned for lanes that are none of these."""
    return Temporary(
        f"stream {tenant}/{use_case} got other buckets meanwhile; nothing was done, try again"
    )


#: what is made of more than a text
_TAKE_MORE = (BadRecord, RecordUnreadable)
#: characters of a text that goes into receipts, the log, and rows of the store
_MOST_CHARACTERS = 20_000


def text_of(error: BaseException) -> str:
    """The text of an error of somebody else, within bounds: to make it runs their code.

    That may raise, and may quote all that it was given; and what it makes may be a class of theirs.
    """
    try:
        return shortened(str.__str__(str(error)))
    except BaseException as trouble:
        return f"its text cannot be had, {type(trouble).__name__}"


def code_of(error: HeadraceError) -> str:
    """The class of this tree that an error is of, by name; a subclass of users is its parent."""
    return next(_ours(error)).__name__


def as_ours(error: HeadraceError, text: str) -> HeadraceError:
    """The same as an error of this tree alone: in a subclass of users is code of theirs.

    What takes more than a text is its parent, for what it takes is theirs to say.
    """
    kind = next(kind for kind in _ours(error) if kind not in _TAKE_MORE)
    return kind(text)


def _ours(error: HeadraceError) -> Iterator[type[HeadraceError]]:
    """Its classes that are of this tree, the nearest first."""
    return (kind for kind in type(error).__mro__ if kind.__module__ == __name__)


def words_of(error: BaseException) -> str:
    """What a foreign error says: its kind, and its text."""
    return f"{type(error).__name__}: {text_of(error)}"


def shortened(text: str, most_characters: int = _MOST_CHARACTERS) -> str:
    """A text of somebody else without its middle, if it is a long one."""
    left_out = len(text) - most_characters
    if left_out <= 0:
        return text
    half = most_characters // 2
    return f"{text[:half]}\n… {left_out} characters left out …\n{text[-half:]}"


def plain(text: str) -> str:
    """A text of somebody else without what a terminal might obey, or a database not take."""
    return "".join(character if character.isprintable() else "?" for character in text)
