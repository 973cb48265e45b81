"""What every engine must do with versions of a use case, as tests.

A wave runs as the version that it was started with, whatever is taken or forgotten since.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.records import Deployment
from headrace.model.streams import Order
from headrace.ports import Engine
from headrace.sinks import ParquetFiles
from headrace.testing.engine_contract.begun import TOPIC, Handler, answer, results, take, wave
from headrace.use_cases import SliceContext, UseCase, use_case


class _Noted:
    """Notes that somebody pickles it."""

    def __init__(self, looks: list[int]) -> None:
        self._looks = looks

    def __reduce__(self) -> tuple[type[bool], tuple[int]]:
        self._looks.append(1)
        return bool, (1,)


class TestVersions:
    """The laws of what is taken, and let go."""

    def test_a_new_version_runs_from_the_next_wave_on(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        def version(number: int) -> Handler:
            marks = str(tmp_path)

            def handler(table: pa.Table, context: SliceContext) -> pa.Table:
                Path(marks, f"{context.tenant}.{number}").touch()
                return table.select(["offset"])

            return handler

        take(engine, version(1))
        engine.start(wave("w1", "acme"))
        take(engine, version(2))
        engine.start(wave("w2", "bolt"))
        results(engine, 2)
        assert (tmp_path / "acme.1").exists()
        assert (tmp_path / "bolt.2").exists()

    def test_a_wave_runs_as_the_version_with_its_terms(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        versions = []
        for number, order in enumerate(("lane", "stream", "lane")):
            marks = str(tmp_path / f"{number}")

            def handler(_table: pa.Table, context: SliceContext, marks: str = marks) -> None:
                Path(f"{marks}.{context.tenant}").touch()

            versions.append(take(engine, handler, order=order))
        for version, tenant in zip(versions, ("acme", "bolt", "cove"), strict=True):
            engine.start(replace(wave(tenant, tenant), terms=version.terms))
        results(engine, 3)
        assert sorted(path.name for path in tmp_path.glob("?.*")) == ["1.bolt", "2.acme", "2.cove"]

    def test_what_was_packed_is_taken_under_any_terms_without_a_look_at_it(
        self, engine: Engine[UseCase], tmp_path: Path
    ) -> None:
        looks: list[int] = []
        note, marks = _Noted(looks), str(tmp_path)

        def handler(_table: pa.Table, context: SliceContext) -> pa.Table:
            Path(marks, f"{context.tenant}.{bool(note)}").touch()
            return pa.table({})

        made = use_case(topic=TOPIC, sink=ParquetFiles("out"), name="quick")(handler)
        code, deployment = engine.packed(made), Deployment("quick", "m.py", "0" * 64, TOPIC)
        before = len(looks)
        stricter = replace(made, order=Order.STREAM)
        engine.take(made, deployment, code)
        engine.take(stricter, deployment)
        assert len(looks) == before
        for version, tenant in ((made, "acme"), (stricter, "bolt")):
            engine.start(replace(wave(tenant, tenant), terms=version.terms))
        assert [result.error for result in results(engine, 2)] == [None, None]
        assert {path.name.partition(".")[0] for path in tmp_path.glob("*.True")} == {"acme", "bolt"}

    def test_what_is_forgotten_is_let_go_and_nothing_else(self, engine: Engine[UseCase]) -> None:
        first, second = take(engine, answer), take(engine, answer, order="stream")
        engine.start(replace(wave("w1", "acme"), terms=first.terms))
        engine.forget("quick", first.terms)
        engine.forget("quick", first.terms)
        engine.forget("nobody", first.terms)
        engine.start(replace(wave("w2", "bolt"), terms=second.terms))
        engine.start(wave("w3", "cove"))
        assert all(result.error is None for result in results(engine, 3))
        with pytest.raises(KeyError):
            engine.start(replace(wave("w4", "dune"), terms=first.terms))
        assert engine.finished(0.0) == []

    def test_modules_are_those_of_what_runs_or_may_run(self, engine: Engine[UseCase]) -> None:
        def version(module: str, order: str) -> UseCase:
            made = use_case(topic=TOPIC, sink=ParquetFiles("out"), name="quick", order=order)
            found = replace(made(answer), module=module)
            engine.take(found, Deployment("quick", "m.py", "0" * 64, TOPIC))
            return found

        assert engine.modules() == frozenset()
        first = version("v1.a", "lane")
        version("v2.a", "stream")
        assert engine.modules() == {"v1.a", "v2.a"}
        version("v3.a", "lane")
        assert engine.modules() == {"v2.a", "v3.a"}
        engine.start(replace(wave("w1", "acme"), terms=first.terms))
        version("v4.a", "lane")
        assert {"v2.a", "v4.a"} <= engine.modules()
        results(engine, 1)
        assert engine.modules() == {"v2.a", "v4.a"}
        for terms in (first.terms, replace(first.terms, order=Order.STREAM), None):
            engine.forget("quick", terms)
        assert engine.modules() == frozenset()
