"""Tables of leases in moto's DynamoDB keep the laws of a mirror, and are left to whose they are."""

import socket
import time

import pytest

from dynamodb_server import THROTTLED
from headrace.connectors.dynamodb.owned_tables import _ITEMS_AT_ONCE
from headrace.connectors.dynamodb.servers import Service, address_of
from headrace.connectors.kinesis import KinesisLog
from headrace.connectors.kinesis.spots import END, before, beginning, passed, since
from headrace.connectors.lease_mirror import LeaseMirror
from headrace.errors import BrokerUnavailable, ConfigError, Temporary
from headrace.model.lane_names import named
from headrace.ports import Server
from headrace.testing.mirror_contract import MirrorContract
from kinesis_topics import KinesisTopics

#: a number that is higher than those that shards start with
FAR = 10**57
INSTALLATION = "0123456789abcdef"
OURS = f"headrace:{INSTALLATION}"
DAY_S = 86_400


class TestLeaseMirror(MirrorContract):
    # Each is written by a request of its own, so these take their time.
    many = 2 * _ITEMS_AT_ONCE + 10

    @pytest.fixture(autouse=True)
    def _servers(self, dynamodb):
        self.dynamodb, self.streams = dynamodb, KinesisTopics()
        self.kinesis = self.streams.kinesis
        self.kinesis.create_stream(StreamName="a")
        self.log = KinesisLog(self.kinesis, self.streams.clock)
        self.log.topics(["a"])
        yield
        self.log.close()
        dynamodb.away, dynamodb.fate_of = False, lambda operation, request: None

    def make_topic(self, partitions):
        name = f"visits-{len(self.kinesis.streams)}"
        self.kinesis.create_stream(StreamName=name, ShardCount=partitions)
        self.log.topics([name])
        return name

    def mirror(self, installation=INSTALLATION):
        service = Service("entities", address_of(self.dynamodb.server, "entities"))
        return LeaseMirror(service, self.log.listed, installation=installation)

    def unreachable(self, port=1):
        server = Server(f"dynamodb://eu-central-1?endpoint=http://127.0.0.1:{port}", "me", "secret")
        waits = 0.5, 0.5
        return LeaseMirror(
            Service("entities", address_of(server, "entities"), waits), self.log.listed
        )

    def place(self, number):
        return passed(FAR + number)

    def rows(self, use_case):
        return self.dynamodb.items(f"headrace.{use_case}")

    def seen(self, use_case):
        return {
            named(row["streamName"].split(":")[1], int(row["shardId"].removeprefix("shardId-"))): (
                self.place(int(row["checkpoint"]) - FAR)
            )
            for row in self.rows(use_case)
        }

    def row(self, use_case, lane, place):
        self.mirror().show(use_case, {lane: place})
        (row,) = [
            one
            for one in self.rows(use_case)
            if int(one["shardId"].removeprefix("shardId-")) == self.number(lane)
        ]
        return row

    def number(self, lane):
        return int(lane.partition("[")[2].removesuffix("]"))

    def requests(self, operation):
        return [request for asked, request in self.dynamodb.asked if asked == operation]

    def make_table(self, use_case, key="leaseKey"):
        self.dynamodb.client.create_table(
            TableName=f"headrace.{use_case}",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        )

    def put(self, use_case, **item):
        typed = {name: {"S": value} for name, value in item.items()}
        self.dynamodb.client.put_item(TableName=f"headrace.{use_case}", Item=typed)

    # what a row says

    def test_a_row_is_as_the_library_writes_it_for_several_streams(self, use_case):
        stream = self.make_topic(1)
        created = int(self.kinesis.streams[stream].made_s)
        name = f"000000000000:{stream}:{created}"
        row = self.row(use_case, named(stream, 0), passed(FAR))
        assert time.time() + 6 * DAY_S < int(row.pop("headraceForgetAt")) < time.time() + 8 * DAY_S
        assert row == {
            "leaseKey": f"{name}:shardId-000000000000",
            "streamName": name,
            "shardId": "shardId-000000000000",
            "leaseOwner": OURS,
            "leaseCounter": "1",
            "ownerSwitchesSinceCheckpoint": "0",
            "checkpoint": str(FAR),
            "checkpointSubSequenceNumber": "0",
            "startingHashKey": "0",
            "endingHashKey": str(2**128 - 1),
        }
        item = self.dynamodb.client.scan(TableName=f"headrace.{use_case}")["Items"][0]
        numbers = {name for name, value in item.items() if "N" in value}
        assert numbers == {
            "leaseCounter",
            "ownerSwitchesSinceCheckpoint",
            "checkpointSubSequenceNumber",
            "headraceForgetAt",
        }

    def test_rows_tell_parents_and_children(self, use_case):
        stream = self.make_topic(1)
        self.streams.split(stream, named(stream, 0))
        self.log.topics([stream])
        parent, child = (self.row(use_case, named(stream, number), END) for number in (0, 1))
        children = {"shardId-000000000001", "shardId-000000000002"}
        assert set(parent["childShardIds"]) == children
        assert "parentShardId" not in parent
        assert set(child["parentShardId"]) == {"shardId-000000000000"}
        assert child["endingHashKey"] == str(2**127 - 1)

    @pytest.mark.parametrize(
        ("place", "checkpoint", "part"),
        [
            (passed(FAR), str(FAR), "0"),
            (passed(FAR, 1_700_000_000_000), str(FAR), "0"),
            (before(FAR, 3), str(FAR), "2"),
            (before(FAR, 1), str(FAR), "0"),
            (before(FAR), str(FAR - 1), "0"),
            (END, "SHARD_END", "0"),
        ],
    )
    def test_the_checkpoint_is_what_was_handled_last(self, use_case, place, checkpoint, part):
        row = self.row(use_case, named(self.make_topic(1), 0), place)
        assert (row["checkpoint"], row["checkpointSubSequenceNumber"]) == (checkpoint, part)

    def test_where_nothing_was_handled_a_word_says_from_where_on(self, use_case):
        stream = self.make_topic(1)
        lane, starting = named(stream, 0), self.log.listed(stream).shards[0].starting
        for place, word in [
            (beginning(starting), "TRIM_HORIZON"),
            (passed(starting, 1_700_000_000_000), "TRIM_HORIZON"),
            (before(starting + 1), "TRIM_HORIZON"),
            (since(starting, 1_700_000_000_000), "AT_TIMESTAMP"),
        ]:
            assert self.row(use_case, lane, place)["checkpoint"] == word

    # what is asked of DynamoDB

    def test_what_says_the_same_is_not_written_again_and_is_seen_as_it_was_shown_last(
        self, use_case
    ):
        lane, mirror = named(self.make_topic(1), 0), self.mirror()
        mirror.show(use_case, {lane: passed(FAR, 1_700_000_000_000)})
        before_ = len(self.requests("UpdateItem"))
        later = passed(FAR, 1_700_000_600_000)
        mirror.show(use_case, {lane: later})
        assert len(self.requests("UpdateItem")) == before_
        assert mirror.look(use_case, [lane]) == {lane: later}

    def test_each_write_counts(self, use_case):
        lane, mirror = named(self.make_topic(1), 0), self.mirror()
        for number in range(3):
            mirror.show(use_case, {lane: self.place(number)})
        assert [row["leaseCounter"] for row in self.rows(use_case)] == ["3"]

    def test_nobody_is_asked_about_shards(self, use_case):
        lane, mirror = named(self.make_topic(2), 1), self.mirror()
        self.kinesis.refusals.extend(["LimitExceededException"] * 3)
        mirror.show(use_case, {lane: self.place(1)})
        mirror.look(use_case, [lane])
        assert len(self.kinesis.refusals) == 3

    def test_a_table_that_was_made_forgets_what_nobody_sets(self, use_case):
        self.mirror().show(use_case, {named(self.make_topic(1), 0): self.place(1)})
        told = self.dynamodb.client.describe_time_to_live(TableName=f"headrace.{use_case}")
        assert told["TimeToLiveDescription"] == {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": "headraceForgetAt",
        }

    # whose a table is

    def test_a_table_with_a_lease_of_another_application_is_refused_and_left(self, use_case):
        self.make_table(use_case)
        self.put(use_case, leaseKey="shardId-000000000000", leaseOwner="worker-7", checkpoint="5")
        there, lane = self.rows(use_case), named(self.make_topic(1), 0)
        with pytest.raises(ConfigError, match=rf"table headrace\.{use_case} belongs to another"):
            self.mirror().show(use_case, {lane: self.place(1)})
        assert self.rows(use_case) == there
        told = self.dynamodb.client.describe_time_to_live(TableName=f"headrace.{use_case}")
        assert told["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"

    def test_so_is_one_with_a_row_of_nobody(self, use_case):
        self.make_table(use_case)
        self.put(use_case, leaseKey="streams", entityType="STREAM")
        with pytest.raises(ConfigError, match="streams is of nobody"):
            self.mirror().show(use_case, {named(self.make_topic(1), 0): self.place(1)})

    def test_so_is_one_of_another_installation(self, use_case):
        lane = named(self.make_topic(1), 0)
        self.mirror("f" * 16).show(use_case, {lane: self.place(1)})
        with pytest.raises(ConfigError, match=f"of headrace:{'f' * 16}"):
            self.mirror().show(use_case, {lane: self.place(2)})
        assert self.seen(use_case) == {lane: self.place(1)}

    def test_a_table_that_has_another_key_is_refused(self, use_case):
        self.make_table(use_case, key="id")
        with pytest.raises(
            ConfigError, match=r"with the key id \(S, HASH\).* leaseKey \(S, HASH\)"
        ):
            self.mirror().show(use_case, {named(self.make_topic(1), 0): self.place(1)})

    def test_a_lease_that_an_application_takes_is_its_own_from_then_on(self, use_case):
        stream, mirror = self.make_topic(2), self.mirror()
        one, two = named(stream, 0), named(stream, 1)
        mirror.show(use_case, self.places({one: 1, two: 1}))
        (taken,) = [row for row in self.rows(use_case) if row["shardId"].endswith("0")]
        self.dynamodb.client.update_item(
            TableName=f"headrace.{use_case}",
            Key={"leaseKey": {"S": taken["leaseKey"]}},
            UpdateExpression="SET leaseOwner = :him",
            ExpressionAttributeValues={":him": {"S": "worker-7"}},
        )
        with pytest.raises(ConfigError, match="is of worker-7"):
            mirror.look(use_case, [one])
        with pytest.raises(ConfigError, match="belongs to another"):
            mirror.show(use_case, self.places({one: 1, two: 1}))
        with pytest.raises(ConfigError, match="belongs to another"):
            mirror.show(use_case, {two: self.place(2)})
        assert self.seen(use_case) == self.places({one: 1, two: 1})

    def test_a_lease_that_is_taken_between_two_writes_is_not_written_over(self, use_case):
        lane, mirror = named(self.make_topic(1), 0), self.mirror()
        mirror.show(use_case, {lane: self.place(1)})
        key = self.rows(use_case)[0]["leaseKey"]
        self.put(use_case, leaseKey=key, leaseOwner="worker-7", checkpoint="5")
        with pytest.raises(ConfigError, match="somebody else took what was ours"):
            mirror.show(use_case, {lane: self.place(2)})
        assert [row["checkpoint"] for row in self.rows(use_case)] == ["5"]

    # trouble

    def test_a_name_that_no_table_has_is_refused(self):
        lane = named(self.make_topic(1), 0)
        with pytest.raises(ConfigError, match="is no name of a table"):
            self.mirror().show("x" * 300, {lane: self.place(1)})

    def test_what_another_one_has_set_back_is_seen_and_set_again(self, use_case):
        lane = named(self.make_topic(1), 0)
        holder, sleeper = self.mirror(), self.mirror()
        holder.show(use_case, {lane: self.place(9)})
        sleeper.show(use_case, {lane: self.place(4)})
        assert holder.look(use_case, [lane]) != {lane: self.place(9)}
        holder.show(use_case, {lane: self.place(9)})
        assert self.seen(use_case) == {lane: self.place(9)}

    def test_a_table_that_was_taken_away_is_made_again(self, use_case):
        stream, mirror = self.make_topic(2), self.mirror()
        shown = self.places({named(stream, number): 3 for number in range(2)})
        mirror.show(use_case, shown)
        self.dynamodb.client.delete_table(TableName=f"headrace.{use_case}")
        assert mirror.look(use_case, shown) == {}
        mirror.show(use_case, shown)
        assert self.seen(use_case) == shown

    def test_so_is_one_that_is_found_to_be_away_while_it_is_written_to(self, use_case):
        stream, mirror = self.make_topic(2), self.mirror()
        shown = self.places({named(stream, number): 3 for number in range(2)})
        mirror.show(use_case, shown)
        self.dynamodb.client.delete_table(TableName=f"headrace.{use_case}")
        with pytest.raises(Temporary, match="it is made again"):
            mirror.show(use_case, self.places({named(stream, 0): 4}))
        mirror.show(use_case, shown)
        assert self.seen(use_case) == shown

    def test_a_table_that_takes_no_more_for_now_gets_the_rest_later(self, use_case):
        stream, mirror = self.make_topic(4), self.mirror()
        shown = self.places({named(stream, number): 3 for number in range(4)})
        tries = iter([None, None, THROTTLED])
        self.dynamodb.fate_of = lambda operation, request: (
            next(tries, None) if operation == "UpdateItem" else None
        )
        with pytest.raises(Temporary) as told:
            mirror.show(use_case, shown)
        assert not isinstance(told.value, BrokerUnavailable)
        asked = len(self.requests("UpdateItem"))
        mirror.show(use_case, shown)
        assert self.seen(use_case) == shown
        assert len(self.requests("UpdateItem")) == asked + 2

    def test_so_does_a_table_that_gives_no_more_for_now(self, use_case):
        lane, mirror = named(self.make_topic(1), 0), self.mirror()
        mirror.show(use_case, {lane: self.place(1)})
        self.dynamodb.fate_of = lambda operation, request: (
            THROTTLED if operation == "BatchGetItem" else None
        )
        with pytest.raises(Temporary):
            mirror.look(use_case, [lane])

    def test_a_service_that_hangs_up_in_between_is_away(self, use_case):
        lane, mirror = named(self.make_topic(1), 0), self.mirror()
        mirror.show(use_case, {lane: self.place(1)})
        self.dynamodb.away = True
        with pytest.raises(BrokerUnavailable):
            mirror.show(use_case, {lane: self.place(2)})
        with pytest.raises(BrokerUnavailable):
            mirror.look(use_case, [lane])

    def test_a_service_that_is_silent_is_away_when_its_time_is_over(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            mirror = self.unreachable(silent.getsockname()[1])
            began_s = time.monotonic()
            with pytest.raises(BrokerUnavailable):
                mirror.show("case", {named("a", 0): self.place(1)})
            assert time.monotonic() - began_s < 5

    def test_a_right_that_is_missing_is_told_without_what_was_signed(self, use_case):
        lane = named(self.make_topic(1), 0)
        self.dynamodb.fate_of = lambda operation, request: (
            ("AccessDeniedException", "not authorized to perform: dynamodb:UpdateItem")
            if operation == "UpdateItem"
            else None
        )
        mirror = self.mirror()
        with pytest.raises(Exception, match=r"its user lacks a right: .*UpdateItem"):
            mirror.show(use_case, {lane: self.place(1)})
        assert repr(mirror) == "LeaseMirror(connection entities)"

    def test_who_may_not_say_that_rows_are_forgotten_shows_them_all_the_same(self, use_case):
        lane = named(self.make_topic(1), 0)
        self.dynamodb.fate_of = lambda operation, request: (
            ("AccessDeniedException", "no") if operation == "UpdateTimeToLive" else None
        )
        self.mirror().show(use_case, {lane: self.place(1)})
        assert self.seen(use_case) == {lane: self.place(1)}
