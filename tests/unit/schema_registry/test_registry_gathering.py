"""One request gathers for no more than a time and a size, and what is too much changes nothing."""

import pytest
from registry_parts import AVRO, MORE

from headrace.schema_registry import gathering
from headrace.schema_registry.judges import JudgesHere

SUBJECT = "acme.visits-value"
VERSIONS = f"/subjects/{SUBJECT}/versions"
LONG = f'{{"type":"string","title":"{"x" * 400}"}}'


class SlowStore:
    """Schemas of a world, whose clock goes on by a second with each look-up."""

    def __init__(self, world, monkeypatch):
        self.looked = 0
        ours = world.store.schema_subjects
        for name in ("seen", "schema", "schemas"):
            monkeypatch.setattr(ours, name, self.counting(getattr(ours, name)))
        real = gathering.Gathering.__init__
        monkeypatch.setattr(
            gathering.Gathering, "__init__", lambda one, subjects: real(one, subjects, self.time_s)
        )

    def counting(self, real):
        def ask(*asked):
            self.looked += 1
            return real(*asked)

        return ask

    def time_s(self):
        return float(self.looked)


def chain(world, length):
    """Schemas of which each refers to the one before; a reference to the last one."""
    before = []
    for number in range(length):
        text = f'{{"type":"string","title":"{number}"}}'
        world.put(f"s{number}", text, schemaType="JSON", references=before)
        before = [{"name": f"s{number}", "subject": f"s{number}", "version": 1}]
    return before


@pytest.mark.parametrize("path", [VERSIONS, f"/compatibility{VERSIONS}/latest"])
def test_a_store_that_is_slow_with_each_of_many_references_holds_no_request(
    world, monkeypatch, path
):
    refers = chain(world, 15)
    slow = SlowStore(world, monkeypatch)
    body = {"schema": LONG, "schemaType": "JSON", "references": refers}
    answer = world.ask("POST", path, body)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50002)
    assert answer.headers["retry-after"] == "1"
    assert slow.looked < gathering.MOST_S + 5
    assert not any(found.subject == SUBJECT for found in world.store.schema_subjects.versions())


def test_the_time_counts_for_all_versions_before_together(world, monkeypatch):
    world.ask("PUT", "/config", {"compatibility": "NONE"})
    for number in range(80):
        world.put(SUBJECT, _field(number))
    world.ask("PUT", "/config", {"compatibility": "FULL_TRANSITIVE"})
    slow = SlowStore(world, monkeypatch)
    assert world.refused("POST", VERSIONS, {"schema": AVRO}) == (503, 50002)
    assert slow.looked < gathering.MOST_S + 5


def _field(number):
    return AVRO.replace("lead", f"lead{number}")


def test_texts_that_are_too_long_together_are_refused_and_nothing_is_kept(world, monkeypatch):
    for number in range(3):
        world.put(f"s{number}", LONG.replace("x", str(number)), schemaType="JSON")
    refers = [{"name": f"s{n}", "subject": f"s{n}", "version": 1} for n in range(3)]
    body = {"schema": LONG, "schemaType": "JSON", "references": refers}
    monkeypatch.setattr(gathering, "MOST_CHARACTERS", 4 * len(LONG) - 1)
    assert world.refused("POST", VERSIONS, body) == (422, 42201)
    monkeypatch.setattr(gathering, "MOST_CHARACTERS", 4 * len(LONG))
    assert world.ask("POST", VERSIONS, body).status_code == 200


def test_a_text_that_is_held_against_another_is_counted_once(world, monkeypatch):
    world.put("s", LONG.replace("x", "s"), schemaType="JSON")
    world.put(SUBJECT, LONG.replace("x", "a"), schemaType="JSON")
    refers = [{"name": "s", "subject": "s", "version": 1}]
    body = {"schema": LONG, "schemaType": "JSON", "references": refers}
    for path in (f"/compatibility{VERSIONS}/latest", VERSIONS):
        monkeypatch.setattr(gathering, "MOST_CHARACTERS", 3 * len(LONG) - 1)
        assert world.refused("POST", path, body) == (422, 42201)
        monkeypatch.setattr(gathering, "MOST_CHARACTERS", 3 * len(LONG))
        assert world.ask("POST", path, body).status_code == 200


def test_what_refers_to_a_version_that_became_another_is_judged_again(world, monkeypatch):
    (refers,) = chain(world, 1)
    ours, real, made = world.store.schema_subjects, world.store.schema_subjects.register, []

    def register(seen, new, *more):
        made.append(new.referred_ids)
        if len(made) == 1:
            # An import, say, that gives the number to another schema.
            ours.delete(ours.seen("s0"), [1], permanent=True)
            world.put("s0", LONG, schemaType="JSON")
        return real(seen, new, *more)

    monkeypatch.setattr(ours, "register", register)
    body = {"schema": LONG.replace("x", "y"), "schemaType": "JSON", "references": [refers]}
    assert world.ask("POST", VERSIONS, body).status_code == 200
    judged = [ids for ids in made if ids]
    assert len(judged) == 2
    assert judged[0] != judged[1] == (ours.seen("s0").versions[0].id,)


def test_versions_before_that_are_too_long_together_are_not_all_read(world, monkeypatch):
    world.ask("PUT", "/config", {"compatibility": "NONE"})
    for number in range(40):
        world.put(SUBJECT, _field(number))
    world.ask("PUT", "/config", {"compatibility": "BACKWARD_TRANSITIVE"})
    read, real = [], world.store.schema_subjects.schemas
    monkeypatch.setattr(
        world.store.schema_subjects, "schemas", lambda ids: read.extend(ids) or real(ids)
    )
    monkeypatch.setattr(gathering, "MOST_CHARACTERS", 12 * len(AVRO))
    assert world.refused("POST", VERSIONS, {"schema": MORE}) == (422, 42201)
    assert len(read) <= 20


def test_what_is_judged_again_begins_anew(world, monkeypatch):
    """A version that came meanwhile makes no reference too many, and no text count twice."""
    refers = chain(world, 2)
    body = {"schema": LONG, "schemaType": "JSON", "references": refers}
    ours, real, tries = world.store.schema_subjects, world.store.schema_subjects.register, []

    def register(*asked):
        tries.append(asked)
        return None if len(tries) < 20 else real(*asked)

    monkeypatch.setattr(ours, "register", register)
    monkeypatch.setattr(gathering, "MOST_CHARACTERS", 2 * len(LONG))
    assert world.ask("POST", VERSIONS, body).json()["version"] == 1


def test_all_that_judges_look_at_for_one_request_has_one_deadline(world, monkeypatch):
    world.put(SUBJECT, MORE)
    spent, ours = [], world.store.schema_subjects
    real, register = JudgesHere._ask, ours.register

    def ask(self, tenant, looked, *what):
        spent.append(looked.seconds)
        looked.seconds += 1.0
        return real(self, tenant, looked, *what)

    def changed_meanwhile(*asked):
        return None if len(spent) < 4 else register(*asked)

    monkeypatch.setattr(JudgesHere, "_ask", ask)
    monkeypatch.setattr(ours, "register", changed_meanwhile)
    assert world.ask("POST", VERSIONS, {"schema": AVRO}).status_code == 200
    assert spent == [0.0, 1.0, 2.0, 3.0]
