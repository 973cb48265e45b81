"""What a table of the Kinesis Client Library says of where an application stands."""

import pytest

from headrace.connectors.kinesis.lease_rows import Lease, leases_of
from headrace.connectors.kinesis.leases import places_of
from headrace.connectors.kinesis.shards import Listed
from headrace.connectors.kinesis.spots import END, before, beginning
from headrace.errors import ConfigError
from headrace.model.lane_names import named
from headrace.model.lineage import Parent


def stream(name):
    """A stream of a name, made at second 1,700,000,000."""
    arn = f"arn:aws:kinesis:eu-central-1:123456789012:stream/{name}"
    return Listed(arn, 1_700_000_000_123, {}, {})


STREAM = stream("acme.visits")


def row(number, checkpoint="100", part="0", **more):
    """As the library writes it, with plain values."""
    key = {"leaseKey": f"shardId-{number:012}", "checkpoint": checkpoint}
    return {**key, "checkpointSubSequenceNumber": part, "leaseCounter": "7", **more}


def lane(number):
    return named("clicks:acme.visits", number)


def places(leases, *numbers, parents=None, open_=()):
    starts = {lane(number): beginning(10 * number) for number in numbers}
    lineage = {
        lane(child): tuple(Parent(lane(one), END) for one in of)
        for child, of in (parents or {}).items()
    }
    return places_of(leases, starts, lineage, open_)


def test_leases_are_those_of_the_shards_of_a_stream():
    found = leases_of([row(0), row(12, "SHARD_END"), row(3, "5", "2")], STREAM)
    assert found == {0: Lease("100", 0), 12: Lease("SHARD_END", 0), 3: Lease("5", 2)}


def test_of_an_application_of_several_streams_those_of_the_others_are_left_out():
    rows = [row(number) for number in range(2)]
    rows[0]["leaseKey"] = "123456789012:acme.visits:1700000000:shardId-000000000000"
    rows[1]["leaseKey"] = "123456789012:bolt.visits:1700000000:shardId-000000000001"
    assert leases_of(rows, STREAM).keys() == {0}
    with pytest.raises(ConfigError, match=r"no lease of a shard of stream cern\.visits"):
        leases_of(rows, stream("cern.visits"))


@pytest.mark.parametrize(
    "other",
    ["123456789012:acme.visits:1600000000:", "210987654321:acme.visits:1700000000:", ""],
)
def test_leases_of_two_streams_of_a_name_are_not_mixed(other):
    """One was deleted and made again, or is another account's: its shards have these numbers."""
    ours = row(0) | {"leaseKey": "123456789012:acme.visits:1700000000:shardId-000000000000"}
    theirs = row(0, "SHARD_END") | {"leaseKey": f"{other}shardId-000000000000"}
    for rows in ([ours, theirs], [theirs, ours]):
        with pytest.raises(ConfigError, match=r"leases of several streams acme\.visits"):
            leases_of(rows, STREAM)


@pytest.mark.parametrize(
    "other", ["123456789012:acme.visits:1600000000", "9:acme.visits:1700000000"]
)
def test_leases_of_another_stream_of_the_name_alone_are_refused(other):
    rows = [row(0, "SHARD_END") | {"leaseKey": f"{other}:shardId-000000000000"}]
    ours = "123456789012:acme.visits:1700000000"
    with pytest.raises(ConfigError, match=f"leases of {other}, and .* is {ours}"):
        leases_of(rows, STREAM)


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"id": "7"},
        {"leaseKey": "shardId-0", "checkpoint": "1"},
        {"leaseKey": "shardId-000000000000"},
        row(0, part="one"),
    ],
)
def test_a_table_of_another_application_is_refused(other):
    with pytest.raises(ConfigError, match="none of the Kinesis Client Library"):
        leases_of([row(1), other], STREAM)


def test_what_else_the_library_keeps_in_the_table_is_passed_over():
    assert leases_of([row(0), {"entityType": "STREAM"}], STREAM).keys() == {0}


def test_reading_goes_on_behind_the_part_of_a_record_that_was_handled_last():
    assert places({0: Lease("100", 0)}, 0) == {lane(0): before(100, 1)}
    assert places({0: Lease("100", 3)}, 0) == {lane(0): before(100, 4)}


def test_words_for_places_are_the_start_and_the_end():
    leases = {0: Lease("SHARD_END", 0), 1: Lease("TRIM_HORIZON", 0)}
    assert places(leases, 0, 1) == {lane(0): END, lane(1): beginning(10)}


@pytest.mark.parametrize("word", ["LATEST", "AT_TIMESTAMP", "", "9" * 70])
def test_a_checkpoint_that_says_no_place_is_refused(word):
    with pytest.raises(ConfigError, match="nothing was checkpointed"):
        places({0: Lease(word, 0)}, 0)


def test_a_shard_without_a_lease_is_done_if_one_that_follows_it_has_one_and_else_not_begun():
    parents = {1: [0], 2: [0], 3: [1, 2], 5: [4]}
    found = places({3: Lease("500", 0)}, 0, 1, 2, 3, 4, 5, parents=parents)
    assert found == {
        **dict.fromkeys(map(lane, range(3)), END),
        lane(3): before(500, 1),
        lane(4): beginning(40),
        lane(5): beginning(50),
    }


def test_what_retention_took_from_the_application_is_told():
    with pytest.raises(ConfigError, match=r"shards \[7\] were not read to their ends"):
        places({8: Lease("100", 0), 7: Lease("70", 0)}, 8)
    with pytest.raises(ConfigError, match="retention may have taken some"):
        places({5: Lease("3", 0)}, 5)
    assert places({8: Lease("100", 0), 7: Lease("SHARD_END", 0)}, 8)


def test_a_shard_that_takes_records_is_at_no_end():
    leases = {0: Lease("SHARD_END", 0), 1: Lease("SHARD_END", 0), 2: Lease("100", 0)}
    with pytest.raises(ConfigError, match=r"shards \[1\] are at SHARD_END there, and take records"):
        places(leases, 0, 1, 2, open_=[1, 2])


@pytest.mark.parametrize("checkpoint", ["100", "SHARD_END"])
def test_shards_that_the_stream_never_had_are_anothers(checkpoint):
    leases = {0: Lease("100", 0), 9: Lease(checkpoint, 0)}
    with pytest.raises(ConfigError, match=r"it has shards \[9\], which the stream has not"):
        places(leases, 0, 1, open_=[0, 1])
