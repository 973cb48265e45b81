"""Every metric there is, declared once.

A metric is a promise: dashboards and alerts of others hang on its name and labels. So all of them
stand here, with what they mean; what a scrape shows is made from this list and cannot show
anything else, and `docs/metrics.md` is printed from it::

    python -c "from headrace.console.metric_list import page; print(page(), end='')"

The first ones have the names of kafka_exporter and kafka-lag-exporter, so that dashboards made for
those work; the group is the one that positions are mirrored to.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER = "gauge", "counter"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    #: ``gauge`` or ``counter``
    kind: str
    labels: tuple[str, ...]
    unit: str
    meaning: str


_LANE = ("consumergroup", "topic", "partition")
_GROUP_LANE = ("group", "topic", "partition")
_STREAM = ("tenant", "use_case")
_OF_DRIVER = ("driver", "use_case")

METRICS = (
    Metric(
        "kafka_consumergroup_lag",
        GAUGE,
        _LANE,
        "records",
        "Records between the position and the end of a partition, as kafka_exporter has it.",
    ),
    Metric(
        "kafka_consumergroup_current_offset",
        GAUGE,
        _LANE,
        "offset",
        "The committed position of a partition: the next offset to read.",
    ),
    Metric(
        "kafka_topic_partition_current_offset",
        GAUGE,
        ("topic", "partition"),
        "offset",
        "Where the log of a partition ends.",
    ),
    Metric(
        "kafka_consumergroup_group_lag",
        GAUGE,
        _GROUP_LANE,
        "records",
        "The same lag under the name that kafka-lag-exporter has for it.",
    ),
    Metric(
        "kafka_consumergroup_group_lag_seconds",
        GAUGE,
        _GROUP_LANE,
        "seconds",
        "How long ago the log of a partition ended where the position is now, interpolated.",
    ),
    Metric(
        "kafka_consumergroup_group_max_lag",
        GAUGE,
        ("group",),
        "records",
        "The largest lag of a partition, over all tenants of a use case.",
    ),
    Metric(
        "kafka_consumergroup_group_max_lag_seconds",
        GAUGE,
        ("group",),
        "seconds",
        "The largest lag of a partition in seconds, over all tenants of a use case.",
    ),
    Metric(
        "kafka_consumergroup_group_sum_lag",
        GAUGE,
        ("group",),
        "records",
        "The lag of all partitions together, over all tenants of a use case.",
    ),
    Metric(
        "headrace_stream_lag_records",
        GAUGE,
        _STREAM,
        "records",
        "Lag of a stream; a guess where its log does not say where it ends, or left out.",
    ),
    Metric(
        "headrace_stream_lag_seconds",
        GAUGE,
        _STREAM,
        "seconds",
        "Lag of a stream's latest partition in seconds.",
    ),
    Metric(
        "headrace_stream_incoming_records_per_second",
        GAUGE,
        _STREAM,
        "records/s",
        "Records that came into the topic, over the last half-minute to minute.",
    ),
    Metric(
        "headrace_stream_records_total",
        COUNTER,
        _STREAM,
        "records",
        "Records committed since the driver that holds the stream took it up.",
    ),
    Metric(
        "headrace_stream_dead_letters_total",
        COUNTER,
        _STREAM,
        "records",
        "Records that went to the dead letters.",
    ),
    Metric(
        "headrace_stream_lost_records_total",
        COUNTER,
        _STREAM,
        "records",
        "Records that Kafka removed before they were read.",
    ),
    Metric(
        "headrace_stream_passed_over_records_total",
        COUNTER,
        _STREAM,
        "records",
        "Records passed over unread, as too old of a stream that was left alone.",
    ),
    Metric(
        "headrace_stream_delay_seconds",
        GAUGE,
        (*_STREAM, "quantile"),
        "seconds",
        "From a record's timestamp to its committed effect, over the last half-minute to minute; "
        "quantiles 0.5, 0.95 and 0.99. Of tenants that are summed up it is the largest.",
    ),
    Metric(
        "headrace_stream_task_share",
        GAUGE,
        _STREAM,
        "ratio",
        "Share of all task-seconds that the driver's streams used lately, 0 to 1.",
    ),
    Metric(
        "headrace_stream_throttled",
        GAUGE,
        _STREAM,
        "0 or 1",
        "1 while the tenant's throttle holds some of it back.",
    ),
    Metric(
        "headrace_stream_stopped_lanes",
        GAUGE,
        _STREAM,
        "lanes",
        "Partitions, or buckets of them, that stand still at a failure until somebody decides.",
    ),
    Metric(
        "headrace_stream_topic_trouble",
        GAUGE,
        _STREAM,
        "0 or 1",
        "1 while something is wrong with the topic that keeps nobody from reading it, such as "
        "hash keys of a stream of Kinesis that no open shard has. Of tenants that are summed up it "
        "is how many.",
    ),
    Metric(
        "headrace_stream_active",
        GAUGE,
        _STREAM,
        "0 or 1",
        "1 unless the stream is suspended, waiting, retrying, throttled or removed. Of tenants "
        "that are summed up it is how many.",
    ),
    Metric(
        "headrace_use_case_waves_total",
        COUNTER,
        _OF_DRIVER,
        "waves",
        "Waves (Spark jobs) that came back since the driver started.",
    ),
    Metric(
        "headrace_use_case_processing_seconds",
        GAUGE,
        (*_OF_DRIVER, "quantile"),
        "seconds",
        "Seconds that the longest task of a wave worked, over the last minutes; quantiles 0, 0.5, "
        "0.95, 0.99 and 1.",
    ),
    Metric(
        "headrace_use_case_scheduling_seconds",
        GAUGE,
        (*_OF_DRIVER, "quantile"),
        "seconds",
        "Seconds that a wave was under way without a task of it at work.",
    ),
    Metric(
        "headrace_use_case_delay_seconds",
        GAUGE,
        (*_OF_DRIVER, "quantile"),
        "seconds",
        "From a record's timestamp to its committed effect, over all tenants.",
    ),
    Metric(
        "headrace_use_case_records_per_second",
        GAUGE,
        _OF_DRIVER,
        "records/s",
        "Records committed, over the last minutes.",
    ),
    Metric(
        "headrace_use_case_incoming_bytes_per_second",
        GAUGE,
        _OF_DRIVER,
        "bytes/s",
        "Bytes of keys and values read, over the last minutes.",
    ),
    Metric(
        "headrace_use_case_pace_records_per_second",
        GAUGE,
        _OF_DRIVER,
        "records/s",
        "What backpressure allows; not there while it allows everything.",
    ),
    Metric(
        "headrace_use_case_state_hits_total",
        COUNTER,
        _OF_DRIVER,
        "portions",
        "How often a worker found the state of a partition as it had left it.",
    ),
    Metric(
        "headrace_use_case_state_misses_total",
        COUNTER,
        _OF_DRIVER,
        "portions",
        "How often it did not, and the store has to be asked.",
    ),
    Metric(
        "headrace_driver_up",
        GAUGE,
        ("driver",),
        "0 or 1",
        "0 if the driver is silent for 15 s and nobody has taken its streams over.",
    ),
    Metric(
        "headrace_driver_report_age_seconds",
        GAUGE,
        ("driver",),
        "seconds",
        "Since the driver last told how it fares; it does every other second.",
    ),
    Metric(
        "headrace_driver_start_time_seconds",
        GAUGE,
        ("driver",),
        "seconds since 1970",
        "When the driver started.",
    ),
    Metric("headrace_driver_streams", GAUGE, ("driver",), "streams", "Streams it holds."),
    Metric("headrace_driver_slots", GAUGE, ("driver",), "slots", "Tasks that can run at once."),
    Metric(
        "headrace_driver_slots_target",
        GAUGE,
        ("driver",),
        "slots",
        "Tasks that it wants to run at once.",
    ),
    Metric("headrace_driver_slots_busy", GAUGE, ("driver",), "slots", "Tasks in flight."),
    Metric("headrace_driver_executors", GAUGE, ("driver",), "executors", "Executors it has."),
    Metric("headrace_tenants", GAUGE, (), "tenants", "Tenants that drivers tell of."),
    Metric(
        "headrace_tenants_summed",
        GAUGE,
        (),
        "tenants",
        'Tenants beyond the cap, which are summed up under tenant="_other".',
    ),
    Metric(
        "headrace_statistics_up",
        GAUGE,
        (),
        "0 or 1",
        "0 if the store did not answer at this scrape; then nothing else is shown.",
    ),
)


def page() -> str:
    """The page of the documentation."""
    rows = [
        f"| `{one.name}` | {one.kind} | {_labels(one)} | {one.unit} | {one.meaning} |"
        for one in METRICS
    ]
    return "\n".join([_HEAD, *rows, ""])


def _labels(metric: Metric) -> str:
    return ", ".join(f"`{label}`" for label in metric.labels) or "none"


_HEAD = """# Metrics

`GET /metrics` of the control API, in the text format of Prometheus. This page is printed from the
list in `src/headrace/console/metric_list.py`; a test holds both together.

A counter begins at 0 again when its driver restarts or a stream goes to another driver; `rate()`
and `increase()` know how to deal with that. With more tenants than the cap (2,000 by default) the
rest is summed up under `tenant="_other"`, and the families with a label `topic` leave it out.

| name | type | labels | unit | meaning |
| --- | --- | --- | --- | --- |"""
