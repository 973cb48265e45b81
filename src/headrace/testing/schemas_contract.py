"""The laws of a schema registry's client, as a suite to run on an own one.

A registry is asked by every worker and is away once in months. Then records of known schemas must
go on, the others must wait and not be taken for bad, and an id that is no id must be told apart
from a registry that is slow. So these are tests here. Derive a class whose name starts with
``Test``, and say how somebody else registers a schema, and how the registry goes away::

    class TestMySchemas(SchemasContract):
        def factory(self) -> SchemasFactory: ...
        def connections(self) -> Connections: ...
        def client(self) -> RegistryClient: ...
        def put(self, subject, schema, names=()) -> int: ...
        def away(self) -> AbstractContextManager[object]: ...
        def later(self, seconds) -> None: ...

How long an answer may take, and which answers of which server mean what, is each client's own.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import json
import pickle
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import pytest

from headrace.errors import RegistryUnavailable, SchemaUnknown, TargetMissing
from headrace.ports import (
    Connections,
    Registering,
    RegistryClient,
    SchemaKind,
    SchemasFactory,
    WrittenSchema,
)

#: no registry has given out as many; the last four bytes can say is none of Java's numbers
_NOBODYS_IDS = (2_000_000_001, 2**32 - 1)


def avro(name: str, **fields: str) -> WrittenSchema:
    """A record of Avro with fields of these types."""
    made = [{"name": field, "type": kind} for field, kind in fields.items()]
    told = {"type": "record", "name": name, "fields": made}
    return WrittenSchema(SchemaKind.AVRO, json.dumps(told))


def meaning(schema: WrittenSchema) -> object:
    """What a schema says, however it is spaced."""
    return json.loads(schema.text)


class SchemasContract(ABC):
    """Laws of ``Schemas`` and ``SchemaIds``; see the module's docstring."""

    #: whether its registry can be asked for a schema by GUID; older ones cannot
    knows_guids: ClassVar[bool] = True

    # what a user of the suite says

    @abstractmethod
    def factory(self) -> SchemasFactory:
        """What travels to the tasks."""

    @abstractmethod
    def connections(self) -> Connections:
        """Where the registry is."""

    @abstractmethod
    def client(self) -> RegistryClient:
        """A new one, which knows nothing yet, and the time as ``later`` says it."""

    @abstractmethod
    def put(
        self, subject: str, schema: WrittenSchema, names: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Register a schema as somebody else would; its id.

        Args:
            subject: under which.
            schema: without references.
            names: name in it -> subject whose newest schema that is.
        """

    @abstractmethod
    def away(self) -> AbstractContextManager[object]:
        """Within it nobody answers."""

    @abstractmethod
    def later(self, seconds: float) -> None:
        """So much time has passed, for every client."""

    # helpers

    @staticmethod
    def subject() -> str:
        """A subject that nobody else uses."""
        return f"contract-{uuid.uuid4().hex}"

    @staticmethod
    def name() -> str:
        """A record that nobody else has."""
        return f"acme.R{uuid.uuid4().hex}"

    def new_id(self) -> int:
        """The id of a schema that is registered now."""
        return self.put(self.subject(), avro(self.name(), at="long"))

    def found_in_the_end(self, client: RegistryClient, id_: int) -> WrittenSchema:
        """What a client finds when it has waited as often as it was told."""
        for _ in range(20):
            try:
                return client.schema(id_)
            except RegistryUnavailable as error:
                self.later((error.retry_after_s or 0) + 0.01)
        raise AssertionError(f"{id_} was never found")

    # laws

    def test_an_id_gives_the_schema_that_was_registered(self) -> None:
        schema = avro(self.name(), page="string")
        found = self.client().schema(self.put(self.subject(), schema))
        assert (found.kind, meaning(found)) == (SchemaKind.AVRO, meaning(schema))
        assert found.references == ()

    def test_what_it_refers_to_comes_along_and_what_refers_comes_later(self) -> None:
        lower, middle, top = self.name(), self.name(), self.name()
        subjects = [self.subject() for _ in range(2)]
        self.put(subjects[0], avro(lower, x="int"))
        self.put(subjects[1], avro(middle, inner=lower), [(lower, subjects[0])])
        id_ = self.put(self.subject(), avro(top, inner=middle), [(middle, subjects[1])])
        found = self.client().schema(id_)
        assert [name for name, _ in found.references] == [lower, middle]
        assert [json.loads(text)["name"] for _, text in found.references] == [lower, middle]

    def test_a_known_id_goes_on_while_nobody_answers(self) -> None:
        id_, client = self.new_id(), self.client()
        known = client.schema(id_)
        with self.away():
            assert client.schema(id_) == known

    def test_another_id_waits_meanwhile_and_is_found_afterwards(self) -> None:
        id_, client = self.new_id(), self.client()
        with self.away(), pytest.raises(RegistryUnavailable):
            client.schema(id_)
        assert self.found_in_the_end(client, id_).kind is SchemaKind.AVRO

    def test_an_id_that_is_new_waits_for_a_minute_and_is_unknown_then(self) -> None:
        client = self.client()
        for id_ in _NOBODYS_IDS:
            with pytest.raises(RegistryUnavailable):
                client.schema(id_)
            self.later(30)
            with pytest.raises(RegistryUnavailable):
                client.schema(id_)
            self.later(31)
            with pytest.raises(SchemaUnknown, match=str(id_)):
                client.schema(id_)

    def test_a_guid_that_nobody_has_is_unknown_in_the_end(self) -> None:
        client, id_ = self.client(), uuid.uuid4()
        with pytest.raises(RegistryUnavailable):
            client.schema(id_)
        self.later(61)
        # Where nobody can be asked for GUIDs it is not known that there is none: it is waited for.
        in_the_end = SchemaUnknown if self.knows_guids else RegistryUnavailable
        with pytest.raises(in_the_end):
            client.schema(id_)

    def test_a_schema_that_comes_late_is_found(self) -> None:
        client, id_ = self.client(), self.new_id() + 1
        with pytest.raises(RegistryUnavailable):
            client.schema(id_)
        self.later(61)
        with pytest.raises(SchemaUnknown):
            client.schema(id_)
        assert self.new_id() == id_
        self.later(30)
        assert client.schema(id_).kind is SchemaKind.AVRO

    def test_a_schema_that_is_registered_is_found_by_its_id(self) -> None:
        subject, schema = self.subject(), avro(self.name(), page="string")
        made = self.client().registered(subject, schema, Registering())
        assert made.schema == schema
        assert meaning(self.client().schema(made.id)) == meaning(schema)

    def test_to_register_it_again_gives_the_same_id(self) -> None:
        subject, schema = self.subject(), avro(self.name(), page="string")
        ids = {self.client().registered(subject, schema, Registering()).id for _ in range(2)}
        assert len(ids) == 1

    def test_what_is_not_to_be_registered_has_to_be_there(self) -> None:
        subject, schema, how = self.subject(), avro(self.name()), Registering(False)
        client = self.client()
        with pytest.raises(TargetMissing, match=subject):
            client.registered(subject, schema, how)
        id_ = self.put(subject, schema)
        self.later(30)
        assert client.registered(subject, schema, how).id == id_

    def test_the_newest_of_a_subject_is_what_one_writes_by(self) -> None:
        subject, name, client = self.subject(), self.name(), self.client()
        how, own = Registering(use_latest_version=True), avro(name)
        with pytest.raises(TargetMissing, match=subject):
            client.registered(subject, own, how)
        for number in range(2):
            # A field that may be missing: any rule of compatibility takes it.
            fields = [{"name": f"f{n}", "type": "int", "default": 0} for n in range(number)]
            told = json.dumps({"type": "record", "name": name, "fields": fields})
            newest = WrittenSchema(SchemaKind.AVRO, told)
            id_ = self.put(subject, newest)
            self.later(100)
            made = client.registered(subject, own, how)
            assert (made.id, meaning(made.schema)) == (id_, meaning(newest))

    def test_a_version_of_a_subject_is_told_as_it_is_now(self) -> None:
        client, subject, name = self.client(), self.subject(), self.name()
        with pytest.raises(TargetMissing):
            client.version(subject, None)
        assert client.numbers(subject) == []
        ids = list[int]()
        for number in range(2):
            fields = [{"name": f"f{n}", "type": "int", "default": 0} for n in range(number)]
            told = json.dumps({"type": "record", "name": name, "fields": fields})
            ids.append(self.put(subject, WrittenSchema(SchemaKind.AVRO, told)))
            assert client.version(subject, None).id == ids[-1]
            assert len(client.numbers(subject)) == number + 1
        assert client.version(subject, 1).id == ids[0]
        for number in (3, 2**31, 10**30):
            with pytest.raises(TargetMissing, match=str(number)):
                client.version(subject, number)
        with self.away(), pytest.raises(RegistryUnavailable):
            client.version(subject, 1)
        with self.away(), pytest.raises(RegistryUnavailable):
            client.numbers(subject)

    def test_who_writes_waits_while_nobody_answers(self) -> None:
        client = self.client()
        with self.away(), pytest.raises(RegistryUnavailable):
            client.registered(self.subject(), avro(self.name()), Registering())

    def test_a_factory_travels_by_pickle(self) -> None:
        id_ = self.new_id()
        factory = pickle.loads(pickle.dumps(self.factory()))  # noqa: S301 - our own bytes
        assert factory.open(self.connections()).schema(id_).kind is SchemaKind.AVRO

    def test_no_address_or_password_shows_in_a_repr_beside_the_server(self) -> None:
        connections = self.connections()
        client = self.factory().open(connections)
        told = [connections.registry.get(key, "") for key in _SECRETS]
        shown = repr(connections) + repr(self.factory()) + repr(client)
        assert not [secret for secret in told if secret and secret in shown]


_SECRETS = ("basic.auth.user.info", "bearer.auth.token", "ssl.key.password")
