"""Whatever happens while waves run: one slice of a lane at a time, in order, and nothing lost.

Hypothesis plays everything at once: several tenants, handlers and workers that fail, waves that are
lost, a store that does not answer, an operator, and drivers that are killed. After each play all
troubles end, the driver runs until it is idle, and the books must balance. For a long run::

    pytest tests/unit/cycle/test_concurrency.py --hypothesis-profile=long
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plays import PLAY_STEPS, Play
from stage import GUARANTEES, Stage

from headrace.spark import task
from headrace.store import open_store


@pytest.fixture
def plays(monkeypatch, empty_store):
    """Where plays are, in which everything comes in many small parts."""
    monkeypatch.setattr(task, "BATCH_RECORDS", 3)
    monkeypatch.setattr(task, "GROUP_RECORDS", 4)
    return empty_store


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """A store to copy: to make one takes as long as a whole play."""
    path = tmp_path_factory.mktemp("plays") / "store.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.mark.parametrize("guarantee", GUARANTEES)
@given(
    order=st.sampled_from(["lane", "stream"]),
    bad_record=st.sampled_from(["suspend", "suspend", "dead-letter", "fail"]),
    counts=st.tuples(*[st.integers(1, 2)] * 3),
    steps=PLAY_STEPS,
)
@settings(
    max_examples=max(1, settings.default.max_examples // 8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_whatever_happens(plays, guarantee, order, bad_record, counts, steps):
    with tempfile.TemporaryDirectory(dir=plays.parent) as folder:
        shutil.copy(plays, f"{folder}/store.db")
        stage = Stage(Path(folder), guarantee, order, bad_record, counts)
        play = Play(stage)
        try:
            for each in steps:
                given_ = dict(each)
                getattr(play, given_.pop("name"))(**given_)
            stage.heal()
            stage.balance()
        finally:
            stage.store.close()
