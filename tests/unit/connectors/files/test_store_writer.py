"""Files into an object store: a name is taken once, and what is there tells what to do.

The store is the client library's own in memory, which heeds conditions as the others do.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from headrace.connectors.files import in_store
from headrace.connectors.files.shape import Shape
from headrace.connectors.object_stores import stores
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable, StoreUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site, Written
from headrace.sinks import ParquetFiles


class Positions:
    """Lanes that stand where slices begin, but for those of tenants in ``gone``."""

    def __init__(self):
        self.gone, self.asked = set(), 0

    def advance(self, moves):
        self.asked += 1
        return [move.lane.tenant not in self.gone for move in moves]


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """What stores hold, by their buckets; clients of the process are put away."""
    found = {}

    def client(url, _waits, _where):
        return found.setdefault(url.bucket, MemoryStore())

    monkeypatch.setattr(stores, "client", client)
    monkeypatch.setattr(stores._stores, "held", {})
    monkeypatch.setattr(stores, "_proofs", {})
    return found


@pytest.fixture
def positions():
    return Positions()


def _site(positions, wave_id="wave", **said):
    servers = {
        "lake": Server("s3://lake"),
        "own": Server("s3://own-{tenant}"),
        "own-acme": Server("s3://only-acme"),
    }
    fence = "0" if wave_id else ""
    return Site(Connections({}, "", servers=servers), positions, wave_id, fence, **said)


def _effect(values, *, tenant="acme", start=0, epoch=1, lanes=1):
    slices = tuple(
        Slice(LaneId("copy", tenant, f"t[{lane}]"), "t", start, start + 9, epoch=epoch)
        for lane in range(lanes)
    )
    return Effect(slices, (start + 9,) * lanes, pa.table({"value": values}))


def _some(*tenants, epoch=1):
    """Five effects of each."""
    return [
        _effect(["a"], tenant=tenant, start=n * 9, epoch=epoch)
        for tenant in tenants
        for n in range(5)
    ]


def _one_by_one(do, given):
    return [do(one) for one in given]


def _writer(positions, wave_id="wave", at="lake", **said):
    sink, site = ParquetFiles("visits", at=at), _site(positions, wave_id, **said)
    sink.prepare(site)
    return sink.open(site)


def _rows(store):
    return {
        each["path"]: pq.read_table(pa.BufferReader(obstore.get(store, each["path"]).bytes()))[
            "value"
        ].to_pylist()
        for batch in obstore.list(store)
        for each in batch
        if each["path"].endswith(".parquet")
    }


def _values(store):
    return sorted(value for rows in _rows(store).values() for value in rows)


def test_a_file_has_the_name_that_it_would_have_on_a_disk(positions, kept):
    assert _writer(positions).write([_effect(["a"], start=7)]) == [Written()]
    name = "tenant=acme/copy@t-0-00000000000000000007-00000000000000000016.parquet"
    assert _rows(kept["lake"]) == {f"visits/{name}": ["a"]}


def test_what_an_earlier_attempt_of_the_wave_wrote_stays(positions, kept):
    _writer(positions).write([_effect(["a"])])
    again = _effect(["of a later version"])
    assert _writer(positions, "wave.1").write([again]) == [Written()]
    assert _values(kept["lake"]) == ["a"]


def test_after_a_seek_the_file_of_the_wave_before_is_replaced(positions, kept):
    _writer(positions, "before").write([_effect(["a"])])
    assert _writer(positions, "after").write([_effect(["b"], epoch=2)]) == [Written()]
    assert _values(kept["lake"]) == ["b"]


def test_who_wakes_up_after_its_wave_leaves_nothing(positions, kept):
    writer = _writer(positions)
    positions.gone.add("acme")
    told = writer.write([_effect(["late"]), _effect(["b"], tenant="bolt")])
    assert told == [Written(superseded=True), Written()]
    assert _values(kept["lake"]) == ["b"]


def test_who_is_sought_while_it_writes_does_not_replace_its_successors_file(
    positions, kept, monkeypatch
):
    late = _writer(positions, "before")
    create = stores.Store.create

    def meanwhile(store, *given):
        monkeypatch.setattr(stores.Store, "create", create)
        positions.gone.discard("acme")
        _writer(positions, "after").write([_effect(["new"], epoch=2)])
        positions.gone.add("acme")
        return create(store, *given)

    monkeypatch.setattr(stores.Store, "create", meanwhile)
    assert late.write([_effect(["old"])]) == [Written(superseded=True)]
    assert _values(kept["lake"]) == ["new"]


def test_a_file_that_changes_while_it_is_looked_at_is_looked_at_again(positions, kept, monkeypatch):
    _writer(positions, "before").write([_effect(["a"])])
    found = stores.Store.found
    others = iter(["b", "c"])

    def meanwhile(store, name):
        seen = found(store, name)
        if (other := next(others, None)) is not None:
            body = Shape(None, (), "").body(pa.table({"value": [other]}))
            obstore.put(kept["lake"], name, body, attributes={"headrace": f"{other} 1"})
        return seen

    writer = _writer(positions, "after")
    monkeypatch.setattr(stores.Store, "found", meanwhile)
    assert writer.write([_effect(["mine"], epoch=2)]) == [Written()]
    assert next(others, None) is None
    assert _values(kept["lake"]) == ["mine"]


def test_others_who_change_a_file_all_the_time_are_waited_for_later(positions, monkeypatch):
    _writer(positions, "before").write([_effect(["a"])])

    def beaten(*_):
        raise stores.BeatenError

    writer = _writer(positions, "after")
    monkeypatch.setattr(stores.Store, "replace", beaten)
    error = writer.write([_effect(["mine"], epoch=2)])[0].error
    assert (error.temporary, error.code) == (True, "SinkUnavailable")


def test_a_file_under_a_later_epoch_than_the_store_gives_wants_a_person(positions, kept):
    _writer(positions, "before").write([_effect(["a"], epoch=7)])
    error = _writer(positions, "after").write([_effect(["b"], epoch=2)])[0].error
    assert (error.temporary, error.code) == (False, "TargetMissing")
    assert "restored from a backup" in error.message
    assert _values(kept["lake"]) == ["a"]


def test_a_file_of_nobodys_wave_is_replaced(positions, kept):
    _writer(positions, "").write([_effect(["a"])])
    assert _writer(positions).write([_effect(["b"])]) == [Written()]
    assert _values(kept["lake"]) == ["b"]


def test_without_recorded_waves_a_file_is_written_over_and_nobody_is_asked(positions, kept):
    for value in ("a", "b"):
        assert _writer(positions, "").write([_effect([value])]) == [Written()]
    assert _values(kept["lake"]) == ["b"]
    assert positions.asked == 0


def test_an_effect_of_thousands_of_lanes_is_one_file_with_few_words_beside_it(positions, kept):
    _writer(positions, "before").write([_effect(["a"], lanes=3000)])
    effect = _effect(["b"], lanes=3000, epoch=2)
    assert _writer(positions, "after").write([effect]) == [Written()]
    assert _values(kept["lake"]) == ["b"]
    (name,) = _rows(kept["lake"])
    assert obstore.get(kept["lake"], name).attributes == {"headrace": "after 2"}


@pytest.mark.parametrize("folder", ["visits/", "./visits", "visits//./"])
def test_a_folder_may_be_written_as_on_a_disk(positions, kept, folder):
    sink = ParquetFiles(folder, at="lake")
    sink.prepare(_site(positions))
    assert sink.open(_site(positions)).write([_effect(["a"])]) == [Written()]
    (name,) = _rows(kept["lake"])
    assert name.startswith("visits/tenant=acme/")


@pytest.mark.parametrize("at", ["{tenant}", "lake-{topic}", "lake}"])
def test_a_name_in_which_more_than_the_tenant_stands_in_braces_is_refused(at):
    with pytest.raises(ConfigError, match="may stand in braces"):
        ParquetFiles("visits", at=at)


def test_of_many_effects_each_is_told_in_its_place(positions, kept):
    effects = [_effect([f"{n:03d}"], start=n * 9) for n in range(100)]
    effects[50] = replace(effects[50], output=pa.table({"value": ["x"], "tenant": ["y"]}))
    sink = ParquetFiles("visits", schema=pa.schema([("value", pa.string())]), at="lake")
    sink.prepare(_site(positions))
    told = sink.open(_site(positions)).write(effects)
    assert [n for n, written in enumerate(told) if written.error] == [50]
    assert _values(kept["lake"]) == [f"{n:03d}" for n in range(100) if n != 50]
    assert positions.asked == 1


def test_a_replay_of_many_looks_at_them_some_at_a_time(positions, monkeypatch):
    effects = [_effect(["a"], start=n * 9) for n in range(48)]
    _writer(positions).write(effects)
    eight, looked, found = threading.Barrier(8, timeout=30), [], stores.Store.found

    def together(store, name):
        looked.append(name)
        eight.wait()
        return found(store, name)

    monkeypatch.setattr(stores.Store, "found", together)
    assert _writer(positions).write(effects) == [Written()] * 48
    assert len(looked) == 48


def test_a_part_of_an_effect_that_is_not_taken_comes_again(positions, kept, monkeypatch):
    sink = ParquetFiles("visits", partition_by=("day",), at="lake")
    sink.prepare(_site(positions))
    table = pa.table({"value": ["a", "b", "c"], "day": ["1", "2", "1"]})
    effects = [replace(_effect([]), output=table), _effect(["d"], start=9)]
    effects[1] = replace(effects[1], output=pa.table({"value": ["d"], "day": ["1"]}))
    put, refused = stores.Store.create, []

    def once(store, name, *given):
        if "day=2" in name and not refused:
            refused.append(name)
            raise SinkRefused("not this one")
        put(store, name, *given)

    monkeypatch.setattr(stores.Store, "create", once)
    told = sink.open(_site(positions)).write(effects)
    assert [one.error and one.error.code for one in told] == ["SinkRefused", None]
    assert _values(kept["lake"]) == ["a", "c", "d"]
    assert sink.open(_site(positions)).write(effects) == [Written()] * 2
    assert _values(kept["lake"]) == ["a", "b", "c", "d"]


def test_while_the_positions_cannot_be_asked_nothing_is_put(positions, kept, monkeypatch):
    def away(_moves):
        raise StoreUnavailable("away")

    writer = _writer(positions)
    monkeypatch.setattr(positions, "advance", away)
    told = writer.write([_effect(["a"]), _effect([])])
    assert told[0].error.code == "StoreUnavailable"
    assert told[1] == Written()
    assert _values(kept["lake"]) == []


def test_a_store_that_takes_nothing_now_is_given_no_more_of_the_call(positions, monkeypatch):
    asked = []

    def slow_down(_store, name, *_):
        asked.append(name)
        raise SinkUnavailable("SlowDown")

    writer = _writer(positions)
    monkeypatch.setattr(stores.Store, "create", slow_down)
    monkeypatch.setattr(in_store, "at_once", _one_by_one)
    told = writer.write([_effect(["a"], start=n * 9) for n in range(5)])
    assert [one.error.code for one in told] == ["SinkUnavailable"] * 5
    assert len(asked) == 1


# --- the driver's store, and that of each tenant ---------------------------------------------


def test_a_process_that_does_not_see_the_drivers_file_puts_nothing(positions, kept):
    sink = ParquetFiles("visits", at="lake")
    told = sink.open(_site(positions)).write([_effect(["a"])])
    assert (told[0].error.temporary, told[0].error.code) == (True, "SinkUnavailable")
    assert "which the driver has put there" in told[0].error.message
    assert _values(kept["lake"]) == []
    sink.prepare(_site(positions))
    assert sink.open(_site(positions)).write([_effect(["a"])]) == [Written()]


def test_installations_do_not_take_each_others_file_for_their_own(positions, kept):
    sink, site = ParquetFiles("visits", at="lake"), _site(positions)
    mine = replace(site, connections=replace(site.connections, seal_key=b"mine"))
    sink.prepare(_site(positions))
    assert sink.open(mine).write([_effect(["a"])])[0].error.code == "SinkUnavailable"


def test_a_store_that_heeds_no_condition_is_refused_at_a_deploy(positions, monkeypatch):
    put = obstore.put

    def careless(store, path, body, *, mode, **said):
        return put(store, path, body, mode="overwrite", **said)

    monkeypatch.setattr(obstore, "put", careless)
    with pytest.raises(ConfigError, match="If-None-Match"):
        ParquetFiles("visits", at="lake").prepare(_site(positions))


@pytest.mark.parametrize("at", ["own", "own-{tenant}"])
def test_each_tenant_has_its_own_store_and_one_without_stops_alone(positions, kept, at):
    writer = _writer(positions, at=at)
    told = writer.write([_effect(["a"]), _effect(["b"], tenant="bolt")])
    if at == "own":
        assert told == [Written(), Written()]
        assert [_values(kept[f"own-{name}"]) for name in ("acme", "bolt")] == [["a"], ["b"]]
    else:
        assert _values(kept["only-acme"]) == ["a"]
        assert (told[0], told[1].error.code) == (Written(), "TargetMissing")
        assert "tenant bolt" in told[1].error.message
        assert "own-acme" not in told[1].error.message


def test_a_tenants_store_that_let_others_wait_is_told_as_such(positions, kept, monkeypatch):
    writer = _writer(positions, at="own")
    writer.write([_effect(["a"]), _effect(["b"], tenant="bolt")])
    create = stores.Store.create

    def away(store, *given):
        if "bolt" in store.where:
            raise SinkUnavailable("it says nothing")
        return create(store, *given)

    monkeypatch.setattr(stores.Store, "create", away)
    monkeypatch.setattr(in_store, "LONG_S", -1.0)
    told = writer.write([_effect(["c"], start=9), _effect(["d"], tenant="bolt", start=9)])
    assert (told[0], told[1].error.code) == (Written(), "TenantsSinkSlow")


def test_where_stores_of_tenants_are_slow_those_that_wait_are_not_begun(positions, monkeypatch):
    writer = _writer(positions, at="own", in_company=True)
    monkeypatch.setattr(in_store, "ALL_S", -1.0)
    once = replace(_effect(["b"], tenant="bolt"), may_repeat=False)
    assert writer.write([_effect(["a"]), once]) == [Written(untried=True), Written()]
    assert _writer(positions, in_company=True).write([_effect(["a"])]) == [Written()]


def test_a_store_that_falls_silent_while_names_are_taken_is_asked_once_and_told_as_slow(
    positions, monkeypatch
):
    _writer(positions, "before", at="own").write(_some("acme", "bolt"))
    writer, replace_file, asked = _writer(positions, "after", at="own"), stores.Store.replace, []

    def silent(store, name, *given):
        if "bolt" not in store.where:
            return replace_file(store, name, *given)
        asked.append(name)
        raise SinkUnavailable("it says nothing")

    monkeypatch.setattr(stores.Store, "replace", silent)
    monkeypatch.setattr(in_store, "LONG_S", -1.0)
    monkeypatch.setattr(in_store, "at_once", _one_by_one)
    told = writer.write(_some("acme", "bolt", epoch=2))
    assert told[:5] == [Written()] * 5
    assert {one.error.code for one in told[5:]} == {"TenantsSinkSlow"}
    assert len(asked) == 1


def test_all_who_wait_for_a_silent_store_at_once_are_told_that_it_is_slow(positions, monkeypatch):
    writer, five = _writer(positions, at="own"), threading.Barrier(5, timeout=30)

    def silent(*_):
        five.wait()
        raise SinkUnavailable("it says nothing")

    monkeypatch.setattr(stores.Store, "prove", lambda *_: None)
    monkeypatch.setattr(stores.Store, "create", silent)
    monkeypatch.setattr(in_store, "LONG_S", -1.0)
    assert {one.error.code for one in writer.write(_some("acme"))} == {"TenantsSinkSlow"}


def test_names_that_are_taken_are_looked_at_in_several_stores_at_once(positions, monkeypatch):
    tenants = ("acme", "bolt", "cobra", "delta")
    effects = [_effect(["a"], tenant=tenant) for tenant in tenants]
    _writer(positions, "before", at="own").write(effects)
    four, replace_file = threading.Barrier(4, timeout=5), stores.Store.replace

    def together(store, *given):
        four.wait()
        replace_file(store, *given)

    monkeypatch.setattr(stores.Store, "replace", together)
    later = [_effect(["b"], tenant=tenant, epoch=2) for tenant in tenants]
    assert _writer(positions, "after", at="own").write(later) == [Written()] * 4


def test_one_whose_name_is_taken_when_the_time_is_over_is_not_waited_for(
    positions, kept, monkeypatch
):
    _writer(positions, "before", at="own").write(_some("acme"))
    writer, create = _writer(positions, "after", at="own", in_company=True), stores.Store.create

    def slow(store, *given):
        writer._until_s = -1.0
        return create(store, *given)

    monkeypatch.setattr(stores.Store, "create", slow)
    monkeypatch.setattr(in_store, "at_once", _one_by_one)
    effects = _some("acme", epoch=2)
    effects[1] = replace(effects[1], may_repeat=False)
    not_tried = Written(untried=True)
    assert writer.write(effects) == [not_tried, Written(), *[not_tried] * 3]


def test_an_effect_that_is_refused_is_told_so_though_a_part_of_it_was_not_tried(
    positions, monkeypatch
):
    sink = ParquetFiles("visits", partition_by=("day",), at="own")
    writer = sink.open(_site(positions, in_company=True))

    def refused(_store, name, *_):
        if "day=" in name:
            writer._until_s = -1.0
            raise SinkRefused("not this one")

    monkeypatch.setattr(stores.Store, "create", refused)
    monkeypatch.setattr(stores.Store, "prove", lambda *_: None)
    monkeypatch.setattr(in_store, "at_once", lambda do, given: _one_by_one(do, given[::-1])[::-1])
    table = pa.table({"value": ["a", "b"], "day": ["1", "2"]})
    assert writer.write([replace(_effect([]), output=table)])[0].error.code == "SinkRefused"


def test_a_tenants_store_is_proved_once_by_whoever_comes_first(positions, monkeypatch):
    proved, prove = [], stores.Store.prove

    def counted(store, *known):
        proved.append(store.where)
        prove(store, *known)

    monkeypatch.setattr(stores.Store, "prove", counted)
    writer = _writer(positions, at="own")
    assert writer.write([_effect(["a"], start=n * 9) for n in range(50)]) == [Written()] * 50
    assert len(proved) == 1


def test_a_store_that_cannot_be_proved_now_is_asked_once_in_a_call(positions, monkeypatch):
    asked = []

    def silent(_store, name):
        asked.append(name)
        time.sleep(0.05)
        raise SinkUnavailable("it says nothing")

    monkeypatch.setattr(stores.Store, "found", silent)
    writer = ParquetFiles("visits", at="lake").open(_site(positions))
    told = writer.write([_effect(["a"], start=n * 9) for n in range(50)])
    assert {one.error.code for one in told} == {"SinkUnavailable"}
    assert len(asked) == 1


def test_clients_of_tenants_are_given_up_where_there_are_many(positions):
    writer = _writer(positions, at="own")
    for number in range(60):
        writer.write([_effect(["a"], tenant=f"tenant-{number}")])
    assert len(stores._stores.held) == 50


def test_a_tenants_store_is_proved_once_however_many_there_are(positions, monkeypatch):
    proved, prove = [], stores.Store.prove

    def counted(store, *known):
        proved.append(store.where)
        prove(store, *known)

    monkeypatch.setattr(stores.Store, "prove", counted)
    writer = _writer(positions, at="own")
    for start in (0, 9):
        writer.write([_effect(["a"], tenant=f"tenant-{n}", start=start) for n in range(60)])
    assert len(proved) == 60


def test_a_name_that_the_yaml_file_lacks_is_told(positions):
    with pytest.raises(ConfigError, match="names lake, own, own-acme"):
        ParquetFiles("visits", at="swamp").prepare(_site(positions))
    with pytest.raises(ConfigError, match="'swamp'"):
        ParquetFiles("visits", at="swamp").open(_site(positions))


def test_only_what_is_below_the_warehouse_needs_a_shared_folder():
    assert ParquetFiles("visits").needs_shared_folder
    assert not ParquetFiles("visits", at="lake").needs_shared_folder
