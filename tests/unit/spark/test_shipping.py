"""What is sent to executors, and the same under other terms."""

import sys
import types
from dataclasses import replace

import cloudpickle

from headrace.model.streams import BadRecordPolicy, Guarantee, Order
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark import task
from headrace.spark.shipping import code_of, differs_in_terms_alone, terms_of
from headrace.spark.task import Work
from headrace.spark.worker_cache import WorkerCache
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case
from headrace.versions import find_module, load_code, read_code
from headrace.versions.loading import nothing_imported


def made(answer="a"):
    def handler(_table, _context):
        return answer

    return use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="one")(handler)


def test_code_that_was_made_before_is_the_same_use_case_under_other_terms(monkeypatch):
    monkeypatch.setattr(task, "CACHE", WorkerCache())
    before = made()
    policy = BadRecordPolicy.DEAD_LETTER
    other = replace(before, order=Order.STREAM, guarantee=Guarantee.EXACTLY_ONCE, bad_record=policy)
    packed = Work(code_of(before), (), Connections({}, ""), NumbersReader(), None, None)
    loaded = replace(packed, terms=terms_of(other)).load()
    assert (loaded.order, loaded.guarantee) == (Order.STREAM, Guarantee.EXACTLY_ONCE)
    assert loaded.bad_record is policy
    assert loaded(None, None) == "a"
    assert loaded.terms == other.terms
    assert packed.load().terms == before.terms, "the code is everybody's"


def test_code_is_used_again_only_where_nothing_but_terms_is_other():
    before = made()
    assert differs_in_terms_alone(replace(before, order=Order.STREAM), before)
    # In the middle of a turn, where nothing of the user's may be packed.
    terms = replace(before.terms, order=Order.STREAM, bad_record=BadRecordPolicy.DEAD_LETTER)
    assert differs_in_terms_alone(before.as_recorded(terms), before)
    assert not differs_in_terms_alone(made(), before)
    assert not differs_in_terms_alone(replace(before, sink=ParquetFiles("y")), before)


WAVE = """\
from headrace import use_case
from headrace.payload.event_times import json_time
import nowhere_but_on_the_driver

def told(records):
    return [times.FIRST] * len(records)

@use_case(topic="{{tenant}}.visits", form="wave", name="one", event_time={event_time})
def one(frame, wave):
    return nowhere_but_on_the_driver
"""


def wave(folder, monkeypatch, event_time):
    module = types.ModuleType("nowhere_but_on_the_driver")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    text = WAVE.format(event_time=event_time)
    (folder / "times.py").write_text("FIRST = 1.0\n")
    (folder / "use_cases.py").write_text(
        text.replace("import nowhere", "import times\nimport nowhere")
    )
    place = find_module("use_cases.py", folder)
    return load_code(read_code(place), place.path).use_cases["one"]


def test_of_a_wave_what_is_called_for_records_is_found_in_its_version(tmp_path, monkeypatch):
    code = code_of(wave(tmp_path, monkeypatch, "told"))
    with nothing_imported():
        made = cloudpickle.loads(code)
        assert made.event_time([None, None]) == [1.0, 1.0]
        assert made.handler.__name__ == "_stays_with_the_driver"


def test_a_wave_of_which_workers_call_nothing_of_its_module_needs_no_module_there(
    tmp_path, monkeypatch
):
    code = code_of(wave(tmp_path, monkeypatch, "json_time('/at')"))
    monkeypatch.delitem(sys.modules, "nowhere_but_on_the_driver")
    with nothing_imported():
        made = cloudpickle.loads(code)
        assert made.event_time is not None
    assert code_of(wave(tmp_path, monkeypatch, "None")) == b""
