"""Suspending, resuming and removing some tenants at once: all of them or none."""

import json

import pytest

from headrace.cli import asking
from headrace.model.streams import State, Tenant
from headrace.testing.log_fake import MemoryLog

LISTED = [
    "name,weight\nbolt,2\nacme,\n",
    '[{"name": "bolt"}, {"name": "acme", "state": "removed"}]',
]


@pytest.fixture
def listed(tmp_path):
    """A file of tenants."""

    def made(text):
        path = tmp_path / "tenants.txt"
        path.write_text(text)
        return str(path)

    return made


def states(store):
    return [tenant.state.value for tenant in store.registry.tenants()]


@pytest.mark.parametrize("text", LISTED, ids=["csv", "json"])
def test_a_list_is_suspended_resumed_and_removed(headrace, store, listed, text):
    path = listed(text)
    for word, told, state in (
        ("suspend", "2 tenants are suspended", "suspended"),
        ("resume", "2 tenants are active", "active"),
        ("remove", "2 tenants are removed", "removed"),
    ):
        yes = ["--yes"] if word == "remove" else []
        dry = headrace("tenants", word, "--file", path, "--dry-run")
        assert told.replace("are", "would be") in dry.output
        assert states(store) != [state, state]
        result = headrace("tenants", word, "--file", path, *yes)
        assert (result.exit_code, told in result.output) == (0, True), result.output
        assert states(store) == [state, state]


def test_who_would_be_removed_is_named_with_what_is_lost(headrace, store, listed):
    before = states(store)
    dry = headrace("tenants", "remove", "--file", listed("name\nacme\nbolt\n"), "--dry-run")
    said = " ".join(dry.output.split())
    assert "2 tenants would be removed: acme, bolt" in said
    assert "lost: " in said
    assert "startingOffsets" in said
    assert states(store) == before


def test_several_can_be_named(headrace, store):
    headrace("tenants", "suspend", "bolt")
    result = headrace("tenants", "suspend", "acme", "bolt")
    assert "1 tenant is suspended" in result.output
    assert "1 had been so already" in result.output
    assert states(store) == ["suspended", "suspended"]


def test_a_program_is_told_whose_state_is_another(headrace):
    headrace("tenants", "suspend", "bolt")
    words = ("tenants", "suspend", "--file", "-", "--json")
    told = headrace(*words, input="name\nacme\nbolt\n").output
    assert json.loads(told) == {
        "state": "suspended",
        "changed": ["acme"],
        "already": ["bolt"],
        "dry_run": False,
    }


def test_every_wrong_line_is_named_and_nothing_is_done(headrace, store, listed):
    headrace("tenants", "remove", "bolt", "--yes")
    path = listed("name,weight\nacme,heavy\nnobody,\nacme,\nbolt,\n,3\n\x1b[2J,\n")
    result = headrace("tenants", "suspend", "--file", path)
    assert result.exit_code == 2
    for told in (
        "line 3: there is no tenant nobody",
        "line 4: tenant acme is in the list twice",
        "line 5: tenant bolt was removed",
        "line 6: it has no name",
        r"line 7: tenant '\x1b[2J': a name is 1 to 63",
    ):
        assert told in result.output
    assert "line 2:" not in result.output, "only the name is read"
    assert states(store) == ["active", "removed"]


def test_of_names_that_are_typed_each_wrong_one_is_told(headrace, store):
    result = headrace("tenants", "suspend", "acme", "nobody", "noone")
    assert result.exit_code == 2
    assert "no tenant nobody" in result.output
    assert "no tenant noone" in result.output
    assert states(store) == ["active", "active"]


@pytest.mark.parametrize("words", [(), ("acme", "--file", "-")])
@pytest.mark.parametrize("command", ["suspend", "resume", "remove"])
def test_nobody_named_or_twice_is_refused(headrace, command, words):
    result = headrace("tenants", command, *words)
    assert result.exit_code == 2
    assert "give a list of them with --file" in " ".join(result.output.split())


def test_a_removal_of_many_is_asked_for_once_with_what_is_lost(headrace, store, monkeypatch):
    monkeypatch.setattr(asking, "log_of", lambda config: MemoryLog())
    monkeypatch.setattr(asking, "_can_be_asked", lambda: True)
    refused = headrace("tenants", "remove", "acme", "bolt", input="n\n")
    assert refused.exit_code == 1
    assert "API keys of 2 tenants" in refused.output
    assert "'headrace tenants suspend ...' with the same names" in refused.output
    assert states(store) == ["active", "active"]
    assert headrace("tenants", "remove", "acme", "bolt", input="y\n").exit_code == 0
    assert states(store) == ["removed", "removed"]


def test_who_was_added_anew_while_the_question_stood_is_not_removed(headrace, store, monkeypatch):
    def answered(*_):
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenant(Tenant("acme"))

    monkeypatch.setattr(asking, "log_of", lambda config: MemoryLog())
    monkeypatch.setattr(asking, "confirm", answered)
    result = headrace("tenants", "remove", "acme", "bolt")
    assert result.exit_code == 2
    assert "acme was removed and added again meanwhile" in " ".join(result.output.split())
    assert states(store) == ["active", "active"]


def test_who_goes_on_hears_how_many_streams_do_not(headrace, store):
    stream = store.registry.streams()[0].id
    store.registry.set_stream_state(stream, State.SUSPENDED)
    one = headrace("tenants", "resume", stream.tenant).output
    assert f"its stream {stream} stays suspended" in " ".join(one.split())
    both = " ".join(headrace("tenants", "resume", "acme", "bolt").output.split())
    assert "1 stream of theirs stays stopped: 'headrace streams list' shows why" in both
