"""What every store must do about schemas, as tests; for ``SchemaSubjects``.

Records carry the number of a schema for years, so what counts here is that a number means one
schema for ever, whoever registers, deletes or starts again at the same time.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest

from headrace.errors import SchemaIdTaken, SchemaReferred, SchemasFull
from headrace.ports import (
    GivenNumbers,
    NewSchema,
    Room,
    SchemaKind,
    SchemaReference,
    SchemaSubjects,
    Store,
    SubjectSetting,
    SubjectVersion,
)

MODE, COMPATIBILITY = SubjectSetting.MODE, SubjectSetting.COMPATIBILITY
NORMALIZE = SubjectSetting.NORMALIZE


def new(text: str, references: Sequence[SchemaReference] = ()) -> NewSchema:
    """A schema whose digest is that of its text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return NewSchema(SchemaKind.AVRO, text, digest, UUID(bytes=digest[:16]), tuple(references))


def put(subjects: SchemaSubjects, subject: str, schema: NewSchema) -> SubjectVersion:
    """Register it, whatever there is."""
    made = subjects.register(subjects.seen(subject), schema)
    assert made is not None
    return made


class TestSchemaSubjects:
    """The promises about schemas and subjects."""

    def test_what_a_schema_refers_to_is_what_it_was_judged_with(self, store: Store) -> None:
        subjects = store.schema_subjects
        before = put(subjects, "money-value", new("one"))
        assert subjects.delete(subjects.seen("money-value"), [1])
        assert subjects.delete(subjects.seen("money-value"), [1], permanent=True)
        after = put(subjects, "money-value", new("another"))
        assert (before.version, after.version) == (1, 1)
        order = new("order", [SchemaReference("Money", "money-value", 1)])
        seen = subjects.seen("order-value")
        assert subjects.register(seen, replace(order, referred_ids=(before.id,))) is None
        assert subjects.register(seen, replace(order, referred_ids=(after.id,))) is not None

    def test_a_schema_comes_back_to_the_letter_by_id_guid_and_digest(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        wanted = new('"stri\x00ng"\ud800 \n')
        made = put(store.schema_subjects, "visits-value", wanted)
        other = open_again()
        kept = other.schema_subjects.schema(made.id)
        assert kept is not None
        assert (kept.text, kept.kind, kept.guid) == (wanted.text, SchemaKind.AVRO, wanted.guid)
        assert other.schema_subjects.schema_of_guid(wanted.guid) == kept
        assert other.schema_subjects.ids_of([wanted.digest, b"none"]) == {made.id}
        other.close()

    def test_the_same_content_has_one_id_under_all_subjects(self, store: Store) -> None:
        ours = store.schema_subjects
        first = put(ours, "a", new("one"))
        assert put(ours, "b", new("two")) == ("b", 1, first.id + 1, False)
        assert put(ours, "b", new("one")) == ("b", 2, first.id, False)
        assert ours.versions_of(first.id) == [("a", 1, 1, False), ("b", 2, 1, False)]
        put(ours, "b-key", new("one"))
        topics = [*(str(number) for number in range(500)), "b"]
        assert ours.versions_of(first.id, topics) == [("b-key", 1, 1, False)]
        assert ours.versions_of(first.id, []) == []

    def test_what_is_not_as_it_was_seen_is_not_done(self, store: Store) -> None:
        ours = store.schema_subjects
        before = ours.seen("a")
        put(ours, "a", new("one"))
        assert ours.register(before, new("two")) is None
        seen = ours.seen("a")
        ours.set_for("a", {COMPATIBILITY: "FULL"})
        assert ours.register(seen, new("two")) is None
        seen = ours.seen("a")
        ours.set_for(None, {MODE: "READONLY"})
        assert not ours.delete(seen, [1])
        assert ours.versions() == [("a", 1, 1, False)]
        assert ours.ids_of([new("two").digest]) == set()
        assert ours.newest_id() == 1

    def test_of_two_who_register_the_same_at_once_both_come_to_one_version(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        others = [open_again() for _ in range(4)]
        seen = store.schema_subjects.seen("a")
        with ThreadPoolExecutor(len(others)) as threads:
            made = [*threads.map(lambda o: o.schema_subjects.register(seen, new("one")), others)]
        assert sorted(made, key=str) == [None, None, None, ("a", 1, 1, False)]
        for other in others:
            other.close()

    def test_an_id_never_comes_again(self, store: Store, open_again: Callable[[], Store]) -> None:
        ours = store.schema_subjects
        for text in ("one", "two"):
            put(ours, "a", new(text))
        assert ours.delete(ours.seen("a"), [1, 2], permanent=True)
        assert (ours.schema(2), ours.versions(), ours.newest_id()) == (None, [], 2)
        other = open_again()
        assert put(other.schema_subjects, "a", new("two")) == ("a", 1, 3, False)
        other.close()

    def test_numbers_that_are_given_are_kept_and_later_ids_are_above_them(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        for text, given in (
            ("three", GivenNumbers(700, 3)),
            ("one", GivenNumbers(500, 1)),
            ("next", GivenNumbers(600)),
        ):
            ours.register(ours.seen("a"), new(text), given)
        assert [(v.version, v.id) for v in ours.seen("a").versions] == [
            (1, 500),
            (3, 700),
            (4, 600),
        ]
        assert put(ours, "b", new("two")).id == 701
        assert put(ours, "b", new("one")) == ("b", 2, 500, False)

    def test_an_id_that_is_anothers_or_a_schema_that_has_another_id_is_not_kept(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        put(ours, "a", new("one"))
        with pytest.raises(SchemaIdTaken):
            ours.register(ours.seen("b"), new("two"), GivenNumbers(1))
        assert ours.register(ours.seen("b"), new("one"), GivenNumbers(9)) is None
        assert (ours.versions(), ours.newest_id()) == ([("a", 1, 1, False)], 1)

    def test_of_two_who_take_one_id_at_once_one_gets_it(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        others = [open_again() for _ in range(4)]

        def take(number: int) -> SubjectVersion | str | None:
            ours = others[number].schema_subjects
            try:
                return ours.register(ours.seen(f"s{number}"), new(f"{number}"), GivenNumbers(7))
            except SchemaIdTaken:
                return "taken"

        with ThreadPoolExecutor(len(others)) as threads:
            made = [*threads.map(take, range(len(others)))]
        assert made.count("taken") == 3
        assert [version.id for version in store.schema_subjects.versions()] == [7]
        for other in others:
            other.close()

    def test_what_is_set_only_where_nothing_is_looks_at_what_is_not_deleted(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        put(ours, "a", new("one"))
        for subject in ("a", None):
            assert not ours.set_for(subject, {MODE: "IMPORT"}, only_if_empty=True)
        assert ours.set_for("b", {MODE: "IMPORT"}, only_if_empty=True)
        ours.delete(ours.seen("a"), [1])
        assert ours.set_for(None, {MODE: "IMPORT"}, only_if_empty=True)
        assert (ours.seen("b").mode, ours.seen("a").global_mode) == ("IMPORT", "IMPORT")

    def test_a_schema_that_another_subject_has_stays(self, store: Store) -> None:
        ours = store.schema_subjects
        put(ours, "a", new("one"))
        put(ours, "b", new("one"))
        ours.delete(ours.seen("a"), [1], permanent=True)
        assert ours.schema(1) is not None
        assert ours.versions() == [("b", 1, 1, False)]

    def test_what_is_softly_deleted_is_known_and_its_number_is_taken(self, store: Store) -> None:
        ours = store.schema_subjects
        put(ours, "a", new("one"))
        ours.delete(ours.seen("a"), [1])
        assert ours.seen("a").versions == (("a", 1, 1, True),)
        assert ours.seen("a").alive == ()
        assert ours.schema(1) is not None
        assert put(ours, "a", new("one")) == ("a", 2, 1, False)

    def test_what_another_schema_refers_to_is_not_deleted(self, store: Store) -> None:
        ours = store.schema_subjects
        put(ours, "part", new("part"))
        put(ours, "whole", new("whole", [SchemaReference("Part", "part", 1)]))
        kept = ours.schema(2)
        assert kept is not None
        assert kept.references == (("Part", "part", 1),)
        put(ours, "a-value", new("whole", [SchemaReference("Part", "part", 1)]))
        ours.delete(ours.seen("a-value"), [1])
        own, gone = ("whole", 1, 2, False), ("a-value", 1, 2, True)
        assert ours.referring("part", 1) == [gone, own]
        assert ours.referring("part", 1, ["a", *map(str, range(500))]) == [gone]
        assert ours.referring("part", 1, []) == ours.referring("part", 2) == []
        for permanent in (False, True):
            with pytest.raises(SchemaReferred):
                ours.delete(ours.seen("part"), [1], permanent=permanent)
        assert ours.seen("part").alive
        ours.delete(ours.seen("whole"), [1])
        assert ours.referring("part", 1) == []
        assert ours.delete(ours.seen("part"), [1])

    def test_what_a_softly_deleted_schema_refers_to_goes_for_good_only_with_it_or_after_it(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        put(ours, "part", new("part"))
        put(ours, "whole", new("whole", [SchemaReference("Part", "part", 1)]))
        put(ours, "part", new("next", [SchemaReference("Part", "part", 1)]))
        ours.delete(ours.seen("whole"), [1])
        ours.delete(ours.seen("part"), [2])
        ours.delete(ours.seen("part"), [1])
        for going in ([1], [1, 2]):
            with pytest.raises(SchemaReferred):
                ours.delete(ours.seen("part"), going, permanent=True)
        assert ours.schema(1) is not None
        assert ours.delete(ours.seen("whole"), [1], permanent=True)
        with pytest.raises(SchemaReferred):
            ours.delete(ours.seen("part"), [1], permanent=True)
        assert ours.delete(ours.seen("part"), [1, 2], permanent=True)
        assert ours.versions() == []

    def test_what_refers_to_nothing_is_not_kept(self, store: Store) -> None:
        ours = store.schema_subjects
        refers = new("whole", [SchemaReference("Part", "part", 1)])
        assert ours.register(ours.seen("whole"), refers) is None
        assert ours.newest_id() == 0

    def test_settings_hold_for_one_or_for_all_until_they_are_taken_back(self, store: Store) -> None:
        ours = store.schema_subjects
        ours.set_for(None, {COMPATIBILITY: "NONE"})
        ours.set_for("a", {COMPATIBILITY: "FULL"})
        ours.set_for("a", {COMPATIBILITY: "FORWARD"})
        ours.set_for("b", {MODE: "READONLY"})
        seen = ours.seen("a")
        assert (seen.compatibility, seen.global_compatibility) == ("FORWARD", "NONE")
        assert (seen.mode, seen.global_mode) == (None, None)
        ours.set_for("b", {MODE: None, COMPATIBILITY: "FULL", NORMALIZE: "true"})
        seen = ours.seen("b")
        assert (seen.mode, seen.compatibility, seen.normalize) == (None, "FULL", "true")
        ours.set_for("a", {COMPATIBILITY: None})
        assert ours.seen("a").compatibility is None

    def test_with_the_last_version_that_is_there_its_settings_go(self, store: Store) -> None:
        ours = store.schema_subjects
        for text in ("one", "two"):
            put(ours, "a", new(text))
        ours.set_for("a", {MODE: "READWRITE"})
        ours.delete(ours.seen("a"), [1, 2])
        ours.delete(ours.seen("a"), [1], permanent=True)
        assert ours.seen("a").mode == "READWRITE"
        ours.delete(ours.seen("a"), [2], permanent=True)
        assert ours.seen("a").mode is None

    def test_subjects_are_listed_by_what_they_begin_with_letter_by_letter(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        for subject in ("b", "a_1", "ab1", "A_1", "a%"):
            put(ours, subject, new("one"))
        assert [version.subject for version in ours.versions()] == ["A_1", "a%", "a_1", "ab1", "b"]
        assert [version.subject for version in ours.versions("a_")] == ["a_1"]
        assert [version.subject for version in ours.versions("a%")] == ["a%"]
        assert ours.schemas([1, 7]).keys() == {1}

    def test_subjects_are_listed_by_the_topics_that_they_are_named_after(
        self, store: Store
    ) -> None:
        ours = store.schema_subjects
        for subject in ("a-value", "A-value", "a-b-value", "a.b-value", "a_c-value", "a", "b-key"):
            put(ours, subject, new("one"))

        def names(*topics: str, prefix: str = "") -> list[str]:
            return [version.subject for version in ours.versions(prefix, topics)]

        assert names("a") == ["a-b-value", "a-value"]
        assert names("a", "a-b", "b") == ["a-b-value", "a-value", "b-key"]
        assert names("a", "b", prefix="b") == ["b-key"]
        assert names(*(str(number) for number in range(1_000)), "b") == ["b-key"]
        assert names() == []

    @pytest.mark.parametrize(("size", "versions"), [(1_000, 2), (8, 1_000)])
    def test_what_has_no_room_is_refused_until_something_is_deleted_for_good(
        self, store: Store, size: int, versions: int
    ) -> None:
        ours = store.schema_subjects
        rooms = [Room("tenant", "acme", size, versions, frozenset({"acme.a", "acme.b"}))]

        def take(subject: str, text: str) -> bool:
            try:
                return ours.register(ours.seen(subject), new(text), None, rooms) is not None
            except SchemasFull:
                return False

        assert take("acme.a-value", "4_on")
        assert take("acme.b-key", "4_tw")
        assert not take("acme.a-value", "4_th")
        assert ours.versions_of(1) == [("acme.a-value", 1, 1, False)]
        assert (ours.newest_id(), ours.ids_of([new("4_th").digest])) == (2, set())
        assert ours.delete(ours.seen("acme.b-key"), [1])
        assert not take("acme.a-value", "4_th")
        assert ours.delete(ours.seen("acme.b-key"), [1], permanent=True)
        assert take("acme.a-value", "4_th")
        assert not take("acme.a-value", "4_fo")

    def test_in_a_room_count_its_own_subjects_with_what_they_refer_to(self, store: Store) -> None:
        ours = store.schema_subjects
        put(ours, "x", new("long" * 100))
        put(ours, "a-b-value", new("long" * 100))
        put(ours, "a-value", new("é"))
        of_topic, own = Room("tenant", "t", 20, 9, frozenset({"a"})), Room("subject", "s", 20, 9)
        for rooms in ([of_topic], [own]):
            seen = ours.seen("a-value")
            refers = [SchemaReference("n" * 18, "x", 1)]
            with pytest.raises(SchemasFull):
                ours.register(seen, new("", refers), None, rooms)
            with pytest.raises(SchemasFull):
                ours.register(seen, new("s" * 19), None, rooms)
        refers = [SchemaReference("n" * 10, "x", 1)]
        made = ours.register(ours.seen("a-value"), new("", refers), None, [of_topic, own])
        assert made is not None
        with pytest.raises(SchemasFull):
            ours.register(ours.seen("a-value"), new("s" * 8), None, [own])

    def test_in_a_room_of_names_count_those_that_begin_so(self, store: Store) -> None:
        ours = store.schema_subjects
        for subject in ("a_b.x", "a_b.y-value", "axb.x", "A_b.x", "a_b"):
            put(ours, subject, new("long"))
        for pattern, versions in (("a_b.*", 2), ("a_b.x", 1), ("*", 5)):
            seen, wanted = ours.seen("a_b.x"), new(pattern)
            full, enough = (
                [Room("subjects", pattern, 1_000, most, pattern=pattern)]
                for most in (versions, versions + 1)
            )
            with pytest.raises(SchemasFull, match=r"may have \d versions .*\(tenant_versions\)"):
                ours.register(seen, wanted, None, full)
            made = ours.register(seen, wanted, None, enough)
            assert made is not None
            for permanent in (False, True):
                assert ours.delete(ours.seen("a_b.x"), [made.version], permanent=permanent)

    def test_of_so_many_subjects_anything_is_set_as_a_room_has_versions(self, store: Store) -> None:
        ours = store.schema_subjects
        rooms = [Room("tenant", "acme", 9, 2, frozenset({"acme.a", "acme.b"}))]
        ours.set_for(None, {COMPATIBILITY: "NONE"})
        ours.set_for("bolt.a-value", {COMPATIBILITY: "NONE"})
        ours.set_for("acme.a-b-value", {COMPATIBILITY: "NONE"})
        for subject in ("acme.a-value", "acme.b-key"):
            for setting in (COMPATIBILITY, MODE):
                assert ours.set_for(subject, {setting: "FULL"}, rooms=rooms)
        with pytest.raises(SchemasFull, match="settings of 2 subjects"):
            ours.set_for("acme.a-key", {COMPATIBILITY: "FULL"}, rooms=rooms)
        assert ours.seen("acme.a-key").compatibility is None
        assert ours.set_for("acme.a-key", {COMPATIBILITY: None}, rooms=rooms)
        assert ours.set_for("acme.a-value", {COMPATIBILITY: "NONE"}, rooms=rooms)
        for setting in (COMPATIBILITY, MODE):
            assert ours.set_for("acme.b-key", {setting: None}, rooms=rooms)
        assert ours.set_for("acme.a-key", {COMPATIBILITY: "FULL"}, rooms=rooms)

    def test_of_two_who_take_the_last_room_at_once_one_has_it(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        others = [open_again() for _ in range(4)]
        rooms = [Room("tenant", "acme", 1_000, 1, frozenset({"a"}))]

        def take(number: int) -> bool:
            ours = others[number].schema_subjects
            subject = f"a-{number}"
            try:
                return ours.register(ours.seen(subject), new(subject), None, rooms) is not None
            except SchemasFull:
                return False

        with ThreadPoolExecutor(len(others)) as threads:
            assert sum(threads.map(take, range(len(others)))) == 1
        for other in others:
            other.close()
