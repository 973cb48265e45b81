"""What operators see of failures, and that each decision does what it says."""

import json

import pytest

from headrace.cli import asking, quarantine
from headrace.connectors.kafka.redrive import Redriven
from headrace.cycle.restarts import PASSED_OVER
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import number_of
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.policies import keeping

ACME = StreamId("score", "acme")


class Letters:
    """Dead letters in memory, which note how far the store was when each was kept."""

    def __init__(self, store):
        self.store, self.kept, self.down, self.closed = store, [], False, False

    def keep(self, letters):
        if self.down:
            raise BrokerUnavailable
        self.kept += [(letter, offsets(self.store)) for letter in letters]

    def close(self):
        self.closed = True


@pytest.fixture
def letters(store, monkeypatch):
    made = Letters(store)
    monkeypatch.setattr(quarantine, "_dead_letters", lambda config: made)
    return made


def offsets(store, stream=ACME):
    return {
        number_of(position.lane.name): position.next_offset
        for position in store.progress.load_positions([stream])
    }


def states(store):
    return {failure.id: failure.state for failure in store.failures.every()}


# --- list and show ---------------------------------------------------------------------------


def test_the_list_has_one_line_for_each_open_failure(headrace, fail, store):
    first = fail(message="no\n JSON \x1b[31m")
    second = fail("bolt", 1, offset=None)
    store.failures.retry(fail("bolt", 0))
    lines = headrace("quarantine", "list").output.splitlines()
    assert len(lines) == 3
    assert lines[1].split()[:5] == [str(first), "acme/score", "0", "3", "4"]
    assert lines[1].rstrip().endswith(r"HandlerError: no JSON \x1b[31m")
    assert lines[2].split()[:4] == [str(second), "bolt/score", "1", "3..9"]


def test_the_list_tells_tries_and_how_often_it_came_again(headrace, fail, store):
    store.failures.retry(fail())
    fail()
    names, line = headrace("quarantine", "list").output.splitlines()
    assert names.split()[4:6] == ["attempts", "stops"]
    assert line.split()[4:6] == ["4", "2"]


def test_what_kafka_had_lost_was_never_tried(headrace, store):
    piece = Slice(LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, 1)
    gone = SliceError(temporary=False, code="RecordsLost", message="gone")
    store.failures.keep([Failure(piece, gone, 1_790_000_000.0, attempts=0)])[0]
    assert headrace("quarantine", "list").output.splitlines()[1].split()[4:6] == ["-", "1"]


def test_the_list_has_what_is_over_if_asked_and_one_stream_if_asked(headrace, fail, store):
    store.failures.retry(fail())
    fail("bolt")
    shown = headrace("quarantine", "list", "--all").output
    assert "retried" in shown
    assert "bolt/score" in shown
    shown = headrace("quarantine", "list", "--all", "--stream", "acme/score").output
    assert "retried" in shown
    assert "bolt" not in shown
    assert "no lane is stopped" in headrace("quarantine", "list", "--stream", "acme/score").output


def test_all_of_a_long_error_reaches_a_pipe_in_one_line(headrace, fail):
    fail(message="long " * 100)
    lines = headrace("quarantine", "list").output.splitlines()
    assert len(lines) == 2
    assert lines[1].count("long") == 100


@pytest.mark.parametrize("name", ["acme", "acme/score/0", "/score", "acme/"])
def test_a_stream_that_is_not_written_as_one_is_refused(headrace, name):
    for words in (("list", "--stream", name), ("retry", "--stream", name), ("redrive", name)):
        result = headrace("quarantine", *words)
        assert result.exit_code == 2
        assert "TENANT/USE-CASE" in result.output


def test_an_unknown_stream_is_told(headrace):
    for words in (("list", "--stream", "no/score"), ("redrive", "no/score")):
        result = headrace("quarantine", *words)
        assert result.exit_code == 2
        assert "no stream no/score" in result.output


def test_show_has_everything_about_a_failure(headrace, fail):
    number = fail(
        traceback="Traceback\n  File\x1b\n",
        raw_key=b"\xff\x00",
        raw_value="{ü\x07".encode(),
        raw_headers=(("trace", b"t1"), ("trace", None)),
    )
    shown = headrace("quarantine", "show", str(number)).output
    for part in (
        f"{number}, open, of 2026-",
        "acme/score, partition 0 of acme.visits",
        "offsets 3..9, epoch 1",
        "attempts   4",
        "HandlerError: no JSON",
        "offset 3",
        "2 bytes, hex: ff 00",
        r"4 bytes, text: {ü\x07",
        "trace = 2 bytes, text: t1",
        "trace = none",
        "Traceback\n             File\\x1b",
        f"headrace quarantine retry {number}",
    ):
        assert part in shown


def test_show_shortens_unless_asked_not_to(headrace, fail):
    number = fail(raw_value=b"x" * 5000)
    short = headrace("quarantine", "show", str(number)).output
    assert "x" * 1000 + "…" in short
    assert "5000 bytes" in short
    assert "x" * 5000 in headrace("quarantine", "show", str(number), "--full").output


def test_show_says_when_no_record_is_named(headrace, fail, store):
    number = fail(offset=None)
    store.failures.retry(number)
    shown = headrace("quarantine", "show", str(number)).output
    assert "none is named" in shown
    assert "retried" in shown
    assert "quarantine skip" not in shown


def hints(headrace, number):
    """The commands that are told to whoever looks at a failure."""
    shown = headrace("quarantine", "show", str(number)).output
    lines = [line for line in shown.splitlines() if line.startswith("headrace quarantine ")]
    return [line.split("    ")[0].strip().split() for line in lines]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("wrong", [{}, {"offset": None}, {"offset": None, "until": 3}])
def test_what_is_shown_as_the_way_on_without_it_is_one(headrace, fail, wrong):
    number = fail(**wrong)
    retry, skip = hints(headrace, number)
    assert retry == ["headrace", "quarantine", "retry", str(number)]
    assert skip[:4] == ["headrace", "quarantine", "skip", str(number)]
    result = headrace(*skip[1:], "--yes")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("until", "shown"), [(9, "3..9"), (3, "3.. ")])
def test_what_kafka_lost_is_listed_with_its_range_and_stops_nothing(headrace, store, until, shown):
    lane = LaneId("score", "acme", "acme.visits[0]")
    (epoch,) = store.membership.hold([ACME]).values()
    message = "acme.visits[0] lost offsets 3..9 to retention before they were read"
    error = SliceError(False, "OffsetOutOfRange", message)
    note = Failure(Slice(lane, "acme.visits", 3, until, epoch), error, 1.0, 0, FailureState.SKIPPED)
    store.progress.skip_lost(ACME, [Move(lane, 3, 9, epoch)], [note], "id")
    assert "no lane is stopped" in headrace("quarantine", "list").output
    listed = headrace("quarantine", "list", "--all").output
    assert "passed over" in listed
    assert "skipped" not in listed
    assert shown in listed
    told = headrace("quarantine", "show", "1").output
    assert message in told
    assert "none: Kafka no longer has these offsets" in told
    assert "quarantine retry" not in told


def test_what_was_passed_over_as_too_old_is_told_as_that(headrace, store):
    lane = LaneId("score", "acme", "acme.visits[0]")
    (epoch,) = store.membership.hold([ACME]).values()
    error = SliceError(False, PASSED_OVER, "acme.visits[0] passed over offsets 3..9: left alone")
    note = Failure(Slice(lane, "acme.visits", 3, 9, epoch), error, 1.0, 0, FailureState.SKIPPED)
    store.progress.pass_over(ACME, [Move(lane, 3, 9, epoch)], [note])
    listed = headrace("quarantine", "list", "--all").output
    assert "PassedOver: acme.visits[0] passed over offsets 3..9: left alone" in listed
    told = headrace("quarantine", "show", "1").output
    assert "1, passed over, of " in told
    assert "skipped" not in listed + told
    assert "none: these offsets were passed over unread, as too old" in told


@pytest.mark.parametrize("words", [("show",), ("retry",), ("skip", "--yes")])
def test_an_unknown_id_is_told_and_nothing_is_done(headrace, fail, store, letters, words):
    number = fail()
    given = [str(number)] if words[0] != "show" else []
    result = headrace("quarantine", *words, *given, "77")
    assert result.exit_code == 2
    assert "no failure 77" in result.output
    assert states(store) == {number: FailureState.OPEN}
    assert letters.kept == []


# --- retry -----------------------------------------------------------------------------------


def test_what_an_earlier_tenant_of_the_name_left_is_told_apart(headrace, fail, store):
    store.membership.hold([ACME])
    number = fail()
    store.registry.set_tenant_state("acme", State.REMOVED)
    store.registry.add_tenant(Tenant("acme"))
    assert "no lane is stopped" in headrace("quarantine", "list").output
    assert "retried, earlier tenant" in headrace("quarantine", "list", "--all").output
    shown = headrace("quarantine", "show", str(number)).output
    assert "an earlier one of this name" in shown


def test_retry_takes_ids_a_stream_or_all(headrace, fail, store):
    numbers = [fail(), fail(partition=1), fail("bolt", 0), fail("bolt", 1)]
    assert headrace("quarantine", "retry", str(numbers[0])).exit_code == 0
    still = {failure.id for failure in store.failures.every(only_open=True)}
    assert still == set(numbers[1:])
    assert headrace("quarantine", "retry", "--stream", "acme/score").exit_code == 0
    assert {failure.id for failure in store.failures.every(only_open=True)} == set(numbers[2:])
    shown = headrace("quarantine", "retry", "--all").output
    assert store.failures.every(only_open=True) == []
    assert f"failure {numbers[2]}: bolt/score/bolt.visits[0] tries offset 3 again; if" in shown
    assert "no lane is stopped" in headrace("quarantine", "retry", "--all").output
    assert offsets(store) == {0: 3, 1: 3}


def test_a_retried_slice_goes_on_at_its_begin(headrace, fail):
    shown = headrace("quarantine", "retry", str(fail(offset=None))).output
    assert "acme.visits[0] tries offset 3 again; if that fails, it stops again\n" in shown


@pytest.mark.parametrize("words", [("list",), ("retry",), ("list", "--all")])
def test_a_stream_that_nobody_added_has_no_empty_list(headrace, fail, words):
    fail()
    refused = headrace("quarantine", *words, "--stream", "acme/scor")
    assert refused.exit_code == 2
    assert "there is no stream acme/scor; 'headrace streams list' shows them" in refused.output
    assert "did you mean acme/score?" in refused.output


@pytest.mark.parametrize("words", [(), ("7", "--all"), ("--stream", "acme/score", "--all")])
def test_retry_wants_to_know_exactly_which(headrace, words):
    result = headrace("quarantine", "retry", *words)
    assert result.exit_code == 2
    assert "--stream, or all" in result.output


def test_one_that_is_not_open_any_more_keeps_no_other_from_being_retried(headrace, fail, store):
    over, still = fail(), fail(partition=1)
    store.failures.retry(over)
    result = headrace("quarantine", "retry", str(over), str(still))
    assert result.exit_code == 2
    assert f"failure {over} of lane acme/score/acme.visits[0] is not open any more" in result.output
    assert set(states(store).values()) == {FailureState.RETRIED}


def test_retry_says_when_the_stream_is_suspended_all_the_same(headrace, fail, store):
    number = fail(stop_use_case=True)
    shown = headrace("quarantine", "retry", str(number)).output
    assert "acme/score is suspended all the same (use case stopped by acme/score" in shown
    assert "headrace streams resume acme/score" in shown
    assert "bolt" not in shown


# --- skip ------------------------------------------------------------------------------------


def test_skip_keeps_the_record_first_and_then_moves_the_lane(headrace, fail, store, letters):
    number = fail(raw_value=b"{")
    result = headrace("quarantine", "skip", str(number), "--yes")
    assert result.exit_code == 0, result.output
    ((letter, before),) = letters.kept
    assert (letter.error.raw_value, letter.error.offset, letter.attempts) == (b"{", 3, 4)
    assert before == {0: 3, 1: 3}
    assert offsets(store) == {0: 4, 1: 3}
    assert states(store) == {number: FailureState.SKIPPED}
    assert letters.closed
    assert "offset 3 of acme.visits[0], which is kept in acme.visits.dlq" in result.output


def test_skip_asks_first(headrace, fail, store, letters, monkeypatch):
    monkeypatch.setattr(asking, "_can_be_asked", lambda: True)
    number = fail()
    assert headrace("quarantine", "skip", str(number), input="n\n").exit_code == 1
    assert (letters.kept, offsets(store)) == ([], {0: 3, 1: 3})
    assert headrace("quarantine", "skip", str(number), input="y\n").exit_code == 0
    assert offsets(store) == {0: 4, 1: 3}


def test_where_nobody_can_be_asked_nothing_is_skipped_and_the_command_is_told(
    headrace, fail, store, letters
):
    number = fail()
    result = headrace("quarantine", "skip", str(number))
    assert result.exit_code == 2
    told = " ".join(result.output.split())
    assert f"headrace quarantine skip {number} --config" in told
    assert told.endswith("--yes")
    assert (letters.kept, offsets(store)) == ([], {0: 3, 1: 3})


def test_a_slice_without_a_named_record_is_skipped_only_on_purpose(headrace, fail, store, letters):
    number = fail(offset=None)
    result = headrace("quarantine", "skip", str(number), "--yes")
    assert result.exit_code == 2
    assert "all 6 offsets of acme.visits[0] 3..9" in " ".join(result.output.split())
    assert offsets(store) == {0: 3, 1: 3}
    result = headrace("quarantine", "skip", str(number), "--whole-slice", "--yes")
    assert result.exit_code == 0
    assert "passes over 6 offsets" in result.output
    assert "acme.visits[0] goes on at offset 9\n" in result.output
    assert offsets(store) == {0: 9, 1: 3}
    assert letters.kept == []


def test_what_was_claimed_and_lost_is_told_before_its_lane_goes_on(headrace, fail, letters, store):
    number = fail(offset=None, until=3)
    assert "records before offset 3 are lost" in headrace("quarantine", "show", str(number)).output
    result = headrace("quarantine", "skip", str(number), "--yes")
    assert result.exit_code == 0, result.output
    assert "before offset 3 is lost" in " ".join(result.output.split())
    assert (letters.kept, offsets(store)) == ([], {0: 3, 1: 3})


def test_a_failure_that_came_again_says_how_often(headrace, fail, store):
    number = fail()
    assert "stops" not in headrace("quarantine", "show", str(number)).output
    store.failures.retry(number)
    assert fail() == number
    shown = headrace("quarantine", "show", str(number)).output
    assert "stops      2: it was retried, and failed again" in shown


def test_a_failure_without_room_for_its_record_is_not_skipped_and_says_what_to_do(
    headrace, fail, store, letters, monkeypatch
):
    with monkeypatch.context() as full:
        full.setattr(keeping, "MOST_BYTES", 100)
        number = fail(raw_value=bytes(200))
    shown = " ".join(headrace("quarantine", "show", str(number)).output.split())
    assert "kept without its record" in shown
    assert "still in its log, acme.visits[0] offset 3" in shown
    assert "none" not in shown
    assert hints(headrace, number) == [["headrace", "quarantine", "retry", str(number)]]
    assert "retry this one, and skip it when it has failed again" in shown
    result = headrace("quarantine", "skip", str(number), "--yes")
    assert result.exit_code == 2
    assert "decide about older failures" in " ".join(result.output.split())
    assert (letters.kept, offsets(store)) == ([], {0: 3, 1: 3})
    store.failures.retry(number)
    assert fail(raw_value=bytes(200)) == number
    assert headrace("quarantine", "skip", str(number), "--yes").exit_code == 0
    assert len(letters.kept) == 1


def test_a_record_that_cannot_be_kept_is_not_skipped(headrace, fail, store, letters):
    number = fail()
    letters.down = True
    result = headrace("quarantine", "skip", str(number), "--yes")
    assert result.exit_code == 75
    assert "No Kafka broker answers" in result.output
    assert (states(store), offsets(store)) == ({number: FailureState.OPEN}, {0: 3, 1: 3})


def test_a_skip_that_cannot_be_leaves_nothing_in_the_dead_letters(headrace, fail, store, letters):
    over, moved = fail(partition=1), fail()
    store.failures.retry(over)
    result = headrace("quarantine", "skip", str(over), "--yes")
    assert result.exit_code == 2
    assert "not open any more: it was retried" in " ".join(result.output.split())
    store.progress.seek(ACME, {"acme.visits[0]": 7})
    again = fail()
    result = headrace("quarantine", "skip", str(again), "--yes")
    assert result.exit_code == 2
    assert "reads next at 7, from where offset 3 cannot" in " ".join(result.output.split())
    assert letters.kept == []
    assert states(store) == {over: FailureState.RETRIED, moved: FailureState.OPEN}


def test_a_record_of_another_lane_is_not_skipped(headrace, fail, letters):
    result = headrace("quarantine", "skip", str(fail(offset=9, until=9)), "--yes")
    assert result.exit_code == 2
    assert "offset 9 cannot be skipped" in " ".join(result.output.split())
    assert letters.kept == []


@pytest.mark.parametrize("whole", [False, True], ids=["a record", "a slice"])
def test_what_stops_a_removed_stream_is_skipped_too(headrace, fail, store, letters, whole):
    number = fail(offset=None) if whole else fail()
    store.registry.set_stream_state(ACME, State.REMOVED)
    words = ["--whole-slice"] if whole else []
    result = headrace("quarantine", "skip", str(number), *words, "--yes")
    assert result.exit_code == 0, result.output
    assert offsets(store) == {0: 9 if whole else 4, 1: 3}
    assert (states(store), len(letters.kept)) == ({number: FailureState.SKIPPED}, not whole)


# --- redrive ---------------------------------------------------------------------------------


@pytest.fixture
def redriven(monkeypatch, store):
    calls = []

    def send(connections, stream, topic, *, generation, limit=None, dry_run=False):
        assert connections.kafka["bootstrap.servers"] == "127.0.0.1:1"
        assert connections.seal_key == store.seal_key()
        calls.append((stream, topic, generation, limit, dry_run))
        return Redriven(5, ("record 7 was sent back 3 times",), 2)

    monkeypatch.setattr(quarantine, "send_back", send)
    return calls


def test_redrive_sends_the_dead_letters_of_a_stream_back(headrace, redriven):
    result = headrace("quarantine", "redrive", "acme/score", "--limit", "5", "--yes")
    assert redriven == [(ACME, "acme.visits", 0, 5, False)]
    assert "sent back to acme.visits: 5, refused: 1, left for the next time: 2" in result.output
    assert "refused: record 7 was sent back 3 times" in result.output


@pytest.mark.parametrize("typed", ["y\n", "n\n"])
def test_a_redrive_counts_and_asks_first_and_sends_no_more_than_it_told(
    headrace, redriven, monkeypatch, typed
):
    monkeypatch.setattr(asking, "_can_be_asked", lambda: True)
    result = headrace("quarantine", "redrive", "acme/score", input=typed)
    assert "effects of up to 5 records of acme/score are made; if one was" in result.output
    counted, sent = (ACME, "acme.visits", 0, None, True), (ACME, "acme.visits", 0, 5, False)
    assert redriven == ([counted, sent] if typed == "y\n" else [counted])


def test_where_nobody_can_be_asked_nothing_is_sent_back_and_the_command_is_told(
    headrace, redriven, config
):
    result = headrace("quarantine", "redrive", "acme/score", "--limit", "5")
    assert result.exit_code == 2
    told = f"headrace quarantine redrive acme/score --limit 5 --config {config} --yes"
    assert told in result.output
    assert redriven == [(ACME, "acme.visits", 0, 5, True)]


def test_a_dry_redrive_says_what_would_be(headrace, redriven):
    result = headrace("quarantine", "redrive", "acme/score", "--dry-run")
    assert redriven == [(ACME, "acme.visits", 0, None, True)]
    assert "dead letters to send back to acme.visits: 5" in result.output
    assert "effects of up to 5 records of acme/score are made" in " ".join(result.output.split())


def test_nothing_is_sent_back_to_a_removed_stream(headrace, redriven, store):
    store.registry.set_stream_state(ACME, State.REMOVED)
    result = headrace("quarantine", "redrive", "acme/score")
    assert result.exit_code == 2
    assert "was removed" in result.output
    assert redriven == []


# --- for programs -----------------------------------------------------------------------------


def test_failures_are_listed_for_programs_in_the_words_of_the_api(headrace, fail, store):
    assert json.loads(headrace("quarantine", "list", "--json").output) == []
    number = fail()
    (row,) = json.loads(headrace("quarantine", "list", "--json").output)
    assert (row["id"], row["stream"], row["state"], row["offset"]) == (
        number,
        "acme/score",
        "open",
        "3",
    )
    assert (row["code"], row["message"], row["earlier_tenant"]) == (
        "HandlerError",
        "no JSON",
        False,
    )
    store.failures.retry(number)
    assert json.loads(headrace("quarantine", "list", "--json").output) == []
    (over,) = json.loads(headrace("quarantine", "list", "--all", "--json").output)
    assert over["state"] == "retried"
