"""The use cases of the demo with Delta, reading streams of Kinesis in the place of topics."""

from dataclasses import replace

from headrace.demo import in_delta
from headrace.model.topic_names import within
from headrace.use_cases import UseCase

__all__ = ["CONNECTION", "keep_in_delta", "react", "replicate", "score"]

CONNECTION = "kinesis"


def _of_streams(use_case: UseCase) -> UseCase:
    return replace(use_case, topic=within(CONNECTION, use_case.topic))


keep_in_delta = _of_streams(in_delta.keep_in_delta)
react = _of_streams(in_delta.react)
replicate = _of_streams(in_delta.replicate)
score = _of_streams(in_delta.score)
