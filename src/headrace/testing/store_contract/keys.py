"""What every store must do about API keys and the audit log, as tests; for ``Keys``.

Keys open doors, so what counts here is when one stops to work: revoked, expired, or gone with its
tenant.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headrace.errors import ConfigError, UnknownName
from headrace.model.credentials import Change, Key, Role
from headrace.model.streams import State, Tenant
from headrace.ports import Store

OPERATOR = Key("0peratr1", b"\x00\xff" * 16, Role.OPERATOR, None, "Ada's laptop", 20.5)
SENDER = Key("sender01", b"\x01" * 32, Role.SENDER, "acme", "shop\x00\ud800", 10.25, 99.5)
TEAM = Key("team0001", b"\x02" * 32, Role.SCHEMAS, None, "team", 30.0, subjects="a\x00\ud800.*")
CHANGE = Change(7.5, "key:0peratr1", "PUT /v1/tenants/acme", "acme", 200, '{"weight": 2}')


class TestKeys:
    """The promises about keys."""

    def test_a_key_comes_back_as_it_was_added(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        store.registry.add_tenant(Tenant("acme"))
        for key in (OPERATOR, SENDER, TEAM):
            store.keys.add(key)
        again = open_again()
        assert again.keys.find("sender01") == SENDER
        assert again.keys.every() == [SENDER, OPERATOR, TEAM]
        assert again.keys.every("acme") == [SENDER]
        assert again.keys.every("bolt") == []
        again.close()

    def test_a_prefix_that_nobody_has_is_nothing(self, store: Store) -> None:
        store.keys.add(OPERATOR)
        for prefix in ("", "0peratr2", "0PERATR1", "0peratr%"):
            assert store.keys.find(prefix) is None

    @pytest.mark.parametrize("name", ["a\x00b", "\ud800", ""])
    def test_what_nobody_can_be_called_has_no_keys(self, store: Store, name: str) -> None:
        store.keys.add(OPERATOR)
        assert store.keys.every(name) == []

    def test_a_prefix_is_taken_once(self, store: Store) -> None:
        store.keys.add(OPERATOR)
        with pytest.raises(ConfigError, match="there is a key 0peratr1 already"):
            store.keys.add(replace(OPERATOR, digest=b"other"))
        assert store.keys.find("0peratr1") == OPERATOR

    def test_only_a_tenant_that_is_there_is_given_a_key(self, store: Store) -> None:
        with pytest.raises(UnknownName, match="no tenant acme"):
            store.keys.add(SENDER)
        store.registry.add_tenant(Tenant("acme"))
        store.registry.set_tenant_state("acme", State.REMOVED)
        with pytest.raises(ConfigError, match="acme was removed"):
            store.keys.add(SENDER)
        assert store.keys.every() == []

    def test_a_key_does_not_outlive_its_tenant(self, store: Store) -> None:
        for name in ("acme", "bolt", "core"):
            store.registry.add_tenant(Tenant(name))
            store.keys.add(replace(SENDER, prefix=f"{name}0000", tenant=name))
        store.keys.add(OPERATOR)
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.change_tenant(Tenant("bolt"), Tenant("bolt", State.REMOVED))
        store.registry.set_tenant_state("core", State.SUSPENDED)
        assert [key.prefix for key in store.keys.every()] == ["core0000", "0peratr1"]
        store.registry.add_tenant(Tenant("acme"))
        assert store.keys.every("acme") == []

    def test_a_key_that_has_a_successor_ends_after_the_overlap_or_sooner(
        self, store: Store
    ) -> None:
        for number, ends_s in enumerate((None, 99.5, 40.0)):
            old = replace(OPERATOR, prefix=f"0peratr{number}", expires_at_s=ends_s)
            new = replace(OPERATOR, prefix=f"success{number}", digest=b"new")
            store.keys.add(old)
            store.keys.succeed(old.prefix, new, 30.0, overlap_s=20.5)
            assert store.keys.find(new.prefix) == new
            then = 40.0 if ends_s == 40.0 else 50.5
            assert store.keys.find(old.prefix) == replace(old, expires_at_s=then)

    def test_without_an_overlap_it_is_revoked(self, store: Store) -> None:
        store.keys.add(OPERATOR)
        store.keys.succeed("0peratr1", replace(OPERATOR, prefix="success1"), 30.0, overlap_s=0.0)
        assert store.keys.find("0peratr1") == replace(OPERATOR, revoked_at_s=30.0)

    def test_what_has_ended_or_is_unknown_has_no_successor(self, store: Store) -> None:
        new = replace(OPERATOR, prefix="success1")
        store.keys.add(OPERATOR)
        store.keys.add(replace(OPERATOR, prefix="0peratr2", expires_at_s=30.0))
        store.keys.revoke("0peratr1", 25.0)
        before = store.keys.every()
        for prefix in ("0peratr1", "0peratr2"):
            with pytest.raises(ConfigError, match=f"key {prefix} does not work any more"):
                store.keys.succeed(prefix, new, 30.0, overlap_s=1.0)
        with pytest.raises(UnknownName, match="no key nobody00"):
            store.keys.succeed("nobody00", new, 30.0, overlap_s=1.0)
        assert store.keys.every() == before

    def test_a_key_whose_successor_cannot_be_added_goes_on(self, store: Store) -> None:
        store.keys.add(OPERATOR)
        with pytest.raises(ConfigError, match="there is a key 0peratr1 already"):
            store.keys.succeed("0peratr1", OPERATOR, 30.0, overlap_s=0.0)
        with pytest.raises(UnknownName, match="no tenant acme"):
            store.keys.succeed("0peratr1", SENDER, 30.0, overlap_s=0.0)
        assert store.keys.every() == [OPERATOR]

    def test_a_key_is_revoked_once(self, store: Store) -> None:
        store.keys.add(OPERATOR)
        store.keys.revoke("0peratr1", 30.0)
        store.keys.revoke("0peratr1", 40.0)
        revoked = store.keys.find("0peratr1")
        assert revoked == replace(OPERATOR, revoked_at_s=30.0)
        assert store.keys.every() == [revoked]

    def test_the_last_of_a_role_is_spared_if_asked(self, store: Store) -> None:
        other, expired = (replace(OPERATOR, prefix=f"0peratr{number}") for number in (2, 3))
        for key in (OPERATOR, other, replace(expired, expires_at_s=25.0)):
            store.keys.add(key)
        store.keys.revoke("0peratr2", 30.0, spare=Role.OPERATOR)
        with pytest.raises(ConfigError, match="the last key of an operator that works"):
            store.keys.revoke("0peratr1", 30.0, spare=Role.OPERATOR)
        # those that do not work are nobody's last
        for prefix in ("0peratr2", "0peratr3"):
            store.keys.revoke(prefix, 30.0, spare=Role.OPERATOR)
        store.keys.revoke("0peratr1", 30.0, spare=Role.VIEWER)
        assert not any(key.works(30.0) for key in store.keys.every())

    def test_of_the_last_two_that_are_revoked_at_once_one_is_spared(self, store: Store) -> None:
        for attempt in range(5):
            prefixes = [f"0per{attempt}at{number}" for number in range(4)]
            for prefix in prefixes:
                store.keys.add(replace(OPERATOR, prefix=prefix))

            def revoke(prefix: str) -> bool:
                try:
                    store.keys.revoke(prefix, 30.0, spare=Role.OPERATOR)
                except ConfigError:
                    return False
                return True

            with ThreadPoolExecutor(len(prefixes)) as threads:
                assert sorted(threads.map(revoke, prefixes)) == [False, True, True, True]
            (left,) = (key.prefix for key in store.keys.every() if key.works(30.0))
            store.keys.revoke(left, 30.0)

    def test_a_key_that_is_not_there_is_told(self, store: Store) -> None:
        with pytest.raises(UnknownName, match="no key nobody00"):
            store.keys.revoke("nobody00", 1.0)

    def test_a_key_is_nothing_that_drivers_look_for(self, store: Store) -> None:
        before = store.revision()
        store.keys.add(OPERATOR)
        store.keys.revoke("0peratr1", 30.0)
        assert store.revision() == before


class TestAudit:
    """The promises about the audit log."""

    def test_changes_come_newest_first_as_they_were_noted(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        odd = replace(CHANGE, who="jwt:\x00\ud800", tenant="\x00no such", detail="")
        for change in (CHANGE, replace(CHANGE, tenant=None, status=403), odd):
            store.audit.note(change)
        again = open_again()
        found = again.audit.changes()
        again.close()
        assert [replace(change, id=None) for change in found] == [
            odd,
            replace(CHANGE, tenant=None, status=403),
            CHANGE,
        ]
        assert store.audit.changes(tenant="\x00no such") == found[:1]

    def test_lines_noted_together_are_in_their_order_each_of_its_tenant(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.set_tenant_state("acme", State.REMOVED)
        store.registry.add_tenants([Tenant("acme"), Tenant("bolt")])
        acme = next(known for known in store.registry.tenants() if known.name == "acme")
        many = [replace(CHANGE, at_s=float(at_s), tenant=f"t{at_s}") for at_s in range(600)]
        some = [replace(CHANGE, tenant=name) for name in ("acme", "bolt", "Odd", None)]
        store.audit.note(*many, *some)
        found = store.audit.changes(limit=604)[::-1]
        assert [line.tenant for line in found] == [line.tenant for line in (*many, *some)]
        assert [line.generation for line in found[600:]] == [acme.generation, 0, None, None]
        ids = [line.id or 0 for line in found]
        assert ids == list(range(ids[0], ids[0] + 604))

    def test_pages_go_on_below_the_last_id(self, store: Store) -> None:
        for at_s in range(7):
            tenant = "acme" if at_s % 2 else "bolt"
            store.audit.note(replace(CHANGE, at_s=float(at_s), tenant=tenant))
        first = store.audit.changes(limit=3)
        store.audit.note(CHANGE)
        second = store.audit.changes(limit=3, before=first[-1].id)
        assert [change.at_s for change in first + second] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
        ids = [change.id or 0 for change in store.audit.changes()]
        assert ids == sorted(set(ids), reverse=True)
        of_acme = store.audit.changes(tenant="acme", before=ids[2], limit=2)
        assert [change.at_s for change in of_acme] == [3.0, 1.0]

    def test_what_callers_make_long_is_cut(self, store: Store) -> None:
        long = "x" * 100_000
        store.audit.note(Change(1.0, long, long, long, 404, long))
        found = store.audit.changes()[0]
        texts = (found.who, found.action, found.tenant or "", found.detail)
        assert [len(text) for text in texts] == [200, 500, 200, 4000]
        assert all(text.endswith("…") for text in texts)
