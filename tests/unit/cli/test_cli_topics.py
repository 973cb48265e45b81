"""Topics are made for all tenants with one command, and it says which one lets them go on."""

import json

import pytest

from headrace.connectors.kafka import topic_shapes
from headrace.errors import ConfigError
from headrace.model.records import Deployment
from headrace.model.streams import State, StreamId
from headrace.model.topic_patterns import pattern_text
from headrace.operating import topics as operating_topics

SOURCE = """\
from headrace import use_case
from headrace.sinks import KafkaTopic, ParquetFiles

@use_case(topic="{tenant}.visits", sink=KafkaTopic("{tenant}.scores", partitions=3))
def score(table, context):
    return table

@use_case(topic="{tenant}.visits", sink=ParquetFiles("p"))
def keep(table, context):
    return table
"""


class Kafka:
    """Which topics there are."""

    def __init__(self):
        self.there, self.refused, self.asked = {"bolt.scores"}, {}, []

    def __call__(self, _config):
        return self

    def topics(self, names):
        return {name: None for name in names if name in self.there}

    def close(self):
        pass

    def make(self, config, partitions, timeout_s, *, replicas, topic_config):
        self.asked.append((dict(partitions), replicas, topic_config))
        self.there |= partitions.keys() - self.refused.keys()
        return {name: self.refused[name] for name in partitions if name in self.refused}


@pytest.fixture
def kafka(monkeypatch, config):
    (config.parent / "use_cases.py").write_text(SOURCE)
    made = Kafka()
    monkeypatch.setattr(operating_topics, "KafkaLog", made)
    monkeypatch.setattr(topic_shapes, "unmakable_topics", made.make)
    return made


def rows(result):
    return {line.split()[0]: line.split()[4:] for line in result.output.splitlines()[1:] if line}


def test_missing_topics_of_all_tenants_are_made_and_nothing_else_is_touched(headrace, kafka):
    result = headrace("topics", "create")
    assert result.exit_code == 0, result.output
    assert kafka.asked == [({"acme.scores": 3}, -1, {})]
    assert rows(result)["acme.scores"] == ["made"]
    assert rows(result)["bolt.scores"] == ["there", "already"]
    again = headrace("topics", "create", "score")
    assert rows(again)["acme.scores"] == ["there", "already"]
    assert len(kafka.asked) == 1


def test_a_dry_run_makes_nothing(headrace, kafka, config):
    # What a module prints goes where people look, not into what programs read.
    with (config.parent / "use_cases.py").open("a") as file:
        file.write('print("loading the model")\n')
    result = headrace("topics", "create", "--dry-run", "--json")
    assert [
        (row["topic"], row["state"], row["partitions"]) for row in json.loads(result.stdout)
    ] == [
        ("acme.scores", "would be made", 3),
        ("bolt.scores", "there already", 3),
    ]
    assert kafka.asked == []


def test_what_is_typed_counts_over_what_the_sink_says(headrace, kafka):
    words = ("--partitions", "6", "--replication", "2", "--retention", "7d", "--tenant", "acme")
    assert headrace("topics", "create", "score", *words).exit_code == 0
    assert kafka.asked == [({"acme.scores": 6}, 2, {"retention.ms": "604800000"})]


def test_topics_that_are_read_are_made_if_asked(headrace, kafka):
    result = headrace("topics", "create", "score", "--inputs", "--tenant", "acme")
    assert rows(result).keys() == {"acme.scores", "acme.visits"}
    assert kafka.there >= {"acme.visits"}


def test_one_that_is_refused_hides_no_other(headrace, kafka):
    kafka.there.clear()
    kafka.refused["acme.scores"] = ConfigError("topic acme.scores cannot be made: denied")
    result = headrace("topics", "create", "score")
    assert result.exit_code == 1
    assert rows(result)["bolt.scores"] == ["made"]
    assert "cannot be made: denied" in result.output


def test_streams_that_stopped_for_want_of_a_topic_are_told_with_the_command(headrace, kafka, fail):
    fail(code="TargetMissing", message="topic acme.scores: it is not there")
    result = headrace("topics", "create", "score")
    assert "headrace use-cases resume score --config" in result.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nothing",), "no use case nothing in the file; it has keep, score"),
        (("keep",), "--inputs"),
        (("score", "--tenant", "acmee"), "'headrace tenants add acmee'"),
        (("score", "--retention", "long"), "7d, 12h, 30m or forever"),
    ],
)
def test_what_cannot_be_made_says_what_to_type(headrace, kafka, words, told):
    result = headrace("topics", "create", *words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert kafka.asked == []


def test_before_the_first_deployment_it_says_that_and_asks_for_no_tenant_again(headrace, kafka):
    result = headrace("topics", "create", "keep", "--inputs")
    told = " ".join(result.output.split())
    assert result.exit_code == 2
    assert "keep: not deployed yet" in told
    assert "'headrace use-cases deploy' at once" in told
    assert "tenants add" not in told


@pytest.mark.parametrize("more", [(), ("--json",), ("--dry-run",)])
def test_what_is_not_deployed_yet_is_told_beside_what_is(headrace, kafka, more):
    result = headrace("topics", "create", "--inputs", *more)
    assert result.exit_code == 0, result.output
    assert "acme.scores" in result.stdout
    assert result.stderr.startswith("keep: not deployed yet, so no tenant has a stream of it")
    assert "'headrace use-cases deploy' at once" in result.stderr


def test_of_what_is_not_deployed_only_what_would_have_topics_is_told(headrace, kafka):
    assert headrace("topics", "create").stderr == ""
    assert headrace("topics", "create", "score", "--inputs").stderr == ""


def test_with_no_tenant_it_says_how_to_add_one(headrace, store, kafka):
    for tenant in ("acme", "bolt"):
        store.registry.set_tenant_state(tenant, State.REMOVED)
    result = headrace("topics", "create", "--inputs")
    assert "'headrace tenants add NAME' adds one" in " ".join(result.output.split())


def test_a_use_case_resumes_lanes_that_stopped_of_all_its_tenants(headrace, store, fail):
    numbers = [fail("acme"), fail("bolt")]
    store.registry.set_stream_state(StreamId("score", "bolt"), State.SUSPENDED, reason="for now")
    told = headrace("use-cases", "resume", "score").output
    assert "streams of score resumed: 1" in told
    assert "'headrace streams resume bolt/score'" in told
    assert [store.failures.one(number).state.value for number in numbers] == ["retried", "open"]
    reasons = {stream.id.tenant: stream.reason for stream in store.registry.streams()}
    assert reasons["bolt"] == "for now"


def test_a_tenant_that_is_resumed_says_which_lanes_stay_stopped_and_what_helps(headrace, fail):
    fail("acme")
    fail("acme", partition=1)
    told = headrace("tenants", "resume", "acme").output
    assert "2 lanes of its stream acme/score stay stopped at a failure" in told
    assert "'headrace streams resume acme/score' retries what failed" in told


def test_a_topic_for_all_is_made_once_for_all(headrace, kafka, store, config):
    source = SOURCE.replace('"{tenant}.visits", sink=P', '"impressions", sink=P')
    (config.parent / "use_cases.py").write_text(source)
    store.registry.deploy(Deployment("keep", "keep.py", "ab12", "impressions"))
    for words in ((), ("--tenant", "everyone")):
        result = headrace("topics", "create", "keep", "--inputs", "--dry-run", "--json", *words)
        assert result.exit_code == 0, result.output
        (row,) = json.loads(result.output)
        assert (row["topic"], row["tenant"]) == ("impressions", None)


SPLITTER = """\
from headrace.splitting import ByKey, Topic, split

by_tenant, parked = split(topic="{tenant}.all", operator="acme", to="{tenant}.visits",
                          tenant=ByKey(), unknown=Topic("strangers"), partitions=8)
"""


def test_of_a_splitter_the_topic_of_strangers_and_the_shared_one_are_made(
    headrace, kafka, store, config
):
    (config.parent / "use_cases.py").write_text(SPLITTER)
    store.registry.deploy(Deployment("split", "use_cases.py", "ab12", "{tenant}.all"))
    assert rows(headrace("topics", "create", "split")).keys() == {"strangers"}
    assert kafka.asked == [({"strangers": -1}, -1, {})]
    made = headrace("topics", "create", "split", "--inputs", "--json")
    assert [row["topic"] for row in json.loads(made.stdout)] == ["acme.all", "strangers"]
    assert "split-parked" not in made.stderr


def test_topics_of_parked_records_are_told_to_be_nobodys_to_make(headrace, kafka, store, config):
    (config.parent / "use_cases.py").write_text(SPLITTER)
    aside = "{tenant}.visits.split.parked"
    store.registry.deploy(Deployment("split-parked", "use_cases.py", "ab12", aside))
    made = headrace("topics", "create", "split-parked", "--inputs")
    assert rows(made).keys() >= {"acme.visits", "bolt.visits"}
    assert "acme.visits.split.parked" not in made.output
    assert "split-parked: the topics that it reads are not to be made" in made.stderr
    assert "not to be made" not in headrace("topics", "create", "split-parked").output


@pytest.mark.parametrize("is_deployed", [True, False])
def test_of_a_pattern_it_says_that_there_is_nothing_to_make(
    headrace, kafka, store, config, is_deployed
):
    """It said that no tenant has a stream, or that it has to be deployed."""
    pattern = r"(?P<tenant>[a-z]+)\.(visits|clicks)"
    of_keep = f'topic=re.compile(r"{pattern}"), sink=P'
    source = "import re\n" + SOURCE.replace('topic="{tenant}.visits", sink=P', of_keep)
    (config.parent / "use_cases.py").write_text(source)
    if is_deployed:
        store.registry.deploy(Deployment("keep", "use_cases.py", "ab12", pattern_text(pattern)))
    for words in ((), ("--inputs",)):
        alone = headrace("topics", "create", "keep", *words)
        told = " ".join(alone.output.split())
        assert alone.exit_code == 2
        assert "nothing is to be made: keep: the topics that it reads are not to be made" in told
        assert "each one that its pattern (?P<tenant>[a-z]+)" in told
    beside = headrace("topics", "create", "--inputs")
    assert beside.exit_code == 0
    assert "keep: the topics that it reads are not to be made here" in beside.stderr
    assert "not deployed" not in beside.stderr
    assert "keep" not in headrace("topics", "create").output
