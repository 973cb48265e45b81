"""A use case that a failure stopped goes on with one command; deployments carry the settings."""

from headrace.model.records import FailureState
from headrace.model.streams import BadRecordPolicy, State, StreamId

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles

@use_case(topic="{tenant}.pages", sink=ParquetFiles("p"), bad_record="fail")
def pages(table, context):
    return None
"""
SETTINGS = """\
use_cases:
  pages: {retries: 0, handler_timeout: 500ms, max_rate_per_lane: 2.5, data_loss: skip}
"""


def test_a_use_case_stopped_by_a_failure_is_resumed_for_all_but_those_suspended_by_hand(
    headrace, fail, store
):
    store.set_stream_state(StreamId("score", "bolt"), State.SUSPENDED)
    number = fail(stop_use_case=True)
    assert {each.state for each in store.streams()} == {State.SUSPENDED}
    assert "streams of score resumed: 1" in headrace("use-cases", "resume", "score").output
    states = {each.id.tenant: each.state for each in store.streams()}
    assert states == {"acme": State.ACTIVE, "bolt": State.SUSPENDED}
    assert store.failure(number).state is FailureState.RETRIED


def test_an_unknown_use_case_is_told(headrace):
    result = headrace("use-cases", "resume", "nobody")
    assert result.exit_code == 2
    assert "no use case nobody" in result.output


def test_what_decorator_and_yaml_say_about_failures_is_deployed(headrace, config, store):
    (config.parent / "use_cases.py").write_text(SOURCE)
    config.write_text(config.read_text() + SETTINGS)
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0, result.output
    (pages,) = [each for each in store.deployments() if each.use_case == "pages"]
    assert pages.bad_record is BadRecordPolicy.FAIL
    assert (pages.retries, pages.handler_timeout_s, pages.max_rate_per_lane) == (0, 0.5, 2.5)
    assert pages.data_loss == "skip"
    assert "nothing changed" in headrace("use-cases", "deploy").output
