"""Where the time of our own runs went: what became of the waves, short and long ones apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness import EndedWave
from headrace.model.plans import Limits


def told(waves: Sequence[EndedWave]) -> dict[str, Any]:
    """Where the time went: short and long waves apart."""
    short_s = Limits().express_s
    kinds = {
        "short": [wave for wave in waves if wave.predicted_s <= short_s],
        "long": [wave for wave in waves if wave.predicted_s > short_s],
    }
    return {
        name: {
            "waves": len(ended),
            "failed": sum(wave.failed for wave in ended),
            "predicted_s": round(sum(wave.predicted_s for wave in ended) / len(ended), 3),
            "mean_s": round(sum(wave.seconds for wave in ended) / len(ended), 3),
            "max_s": round(max(wave.seconds for wave in ended), 3),
            "slices": round(sum(wave.slices for wave in ended) / len(ended), 1),
            "records": sum(wave.records for wave in ended),
        }
        for name, ended in kinds.items()
        if ended
    }
