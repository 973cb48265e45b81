"""Bins become waves: one use case each, like with like, ids that never repeat."""

from __future__ import annotations

from planning_cases import snapshot, stream, valid_plan


def test_bins_of_like_length_share_a_wave_the_longest_first() -> None:
    lags = (900, 850, 300, 250)
    asked = snapshot(
        *[stream(f"t{number}", lag) for number, lag in enumerate(lags)],
        slots=4,
        bins_per_wave=2,
    )
    made = valid_plan(asked)
    lengths = [[round(bin_.predicted_s, 3) for bin_ in wave.bins] for wave in made.waves]
    assert lengths == [[0.9, 0.85], [0.3, 0.25]]


def test_waves_are_numbered_through_all_use_cases() -> None:
    asked = snapshot(
        *[stream("a", 900, use_case=name) for name in ("x", "y", "z")], slots=3, bins_per_wave=9
    )
    made = valid_plan(asked)
    assert [(wave.id, wave.use_case) for wave in made.waves] == [
        ("turn-1-0", "x"),
        ("turn-1-1", "y"),
        ("turn-1-2", "z"),
    ]


def test_a_wave_has_the_budget_of_a_bin() -> None:
    assert [wave.budget_s for wave in valid_plan(snapshot(stream("a", 9))).waves] == [1.0]
