"""The suite of schemas is shown clients with faults, and finds each."""

from dataclasses import replace

import pytest

from headrace.errors import RegistryUnavailable, SchemaUnknown
from headrace.testing.schemas_fake import MemorySchemas
from memory_schemas_laws import MemorySchemasLaws

# pytest's own failure is no Exception.
FOUND = (AssertionError, RegistryUnavailable, SchemaUnknown, pytest.fail.Exception)


class Laws(MemorySchemasLaws):
    """The laws, for one client."""

    def __init__(self, made):
        self.now_s, self.registry = 0.0, made
        made.clock = lambda: self.now_s

    def factory(self):
        return self.registry


class TakesAnOutageForNone(MemorySchemas):
    def schema(self, id_):
        try:
            return super().schema(id_)
        except RegistryUnavailable as error:
            raise SchemaUnknown(str(error)) from error


class Forgets(MemorySchemas):
    def schema(self, id_):
        self._known.clear()
        return super().schema(id_)


class NeverGivesUp(MemorySchemas):
    def schema(self, id_):
        try:
            return super().schema(id_)
        except SchemaUnknown as error:
            raise RegistryUnavailable(str(error)) from error


class RemembersForEver(MemorySchemas):
    def schema(self, id_):
        if id_ in self._missed and self.clock() - self._missed[id_] >= 60:
            raise SchemaUnknown(f"schema {id_} was unknown")
        return super().schema(id_)


class TurnsReferences(MemorySchemas):
    def schema(self, id_):
        found = super().schema(id_)
        return replace(found, references=found.references[::-1])


class RegistersUnasked(MemorySchemas):
    def registered(self, subject, schema, how):
        return super().registered(subject, schema, replace(how, auto_register_schemas=True))


class GivesTheFirst(MemorySchemas):
    def registered(self, subject, schema, how):
        made = super().registered(subject, schema, how)
        return replace(made, id=self.subjects[subject][0])


@pytest.mark.parametrize(
    ("client", "law"),
    [
        (TakesAnOutageForNone, "another_id_waits_meanwhile_and_is_found_afterwards"),
        (TakesAnOutageForNone, "an_id_that_is_new_waits_for_a_minute_and_is_unknown_then"),
        (Forgets, "a_known_id_goes_on_while_nobody_answers"),
        (NeverGivesUp, "an_id_that_is_new_waits_for_a_minute_and_is_unknown_then"),
        (RemembersForEver, "a_schema_that_comes_late_is_found"),
        (TurnsReferences, "what_it_refers_to_comes_along_and_what_refers_comes_later"),
        (RegistersUnasked, "what_is_not_to_be_registered_has_to_be_there"),
        (GivesTheFirst, "the_newest_of_a_subject_is_what_one_writes_by"),
    ],
)
def test_a_client_with_a_fault_breaks_the_law_about_it(client, law):
    getattr(Laws(MemorySchemas()), f"test_{law}")()
    with pytest.raises(FOUND):
        getattr(Laws(client()), f"test_{law}")()
