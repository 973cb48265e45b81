"""A driver killed at every named step of every recipe, again and again, while records keep coming.

``HEADRACE_FAULT_SEEDS`` says how many kills a step gets, the recipes in turn; a seed chooses how
often the step is passed before the kill.
"""

import random

import pytest
from matrix import SEEDS, SERVICE
from rig import NAMES, Rig

from headrace.process.crash_points import STEPS

pytestmark = SERVICE
#: one inside a task and one in the driver, where there is no time for all
QUICK = ("sink-written", "mid-commit")
#: whose step it is, where it is not everybody's
WHOSE = {
    "planned": ("",),
    "intent-recorded": ("intends", "transfers"),
    "claimed": ("claims",),
    "mid-commit": ("repeats", "intends", "transfers", "transacts", "claims"),
}


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, marks=[] if step in QUICK else [pytest.mark.matrix]) for step in STEPS],
)
def test_killed_at_a_step_every_guarantee_is_kept(step, kafka, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers)
    whose = WHOSE.get(step, NAMES)
    with rig.sending():
        for seed in range(SEEDS):
            name = whose[seed % len(whose)]
            times = random.Random(f"{step}{seed}").randint(1, 4)
            with rig.start(f"{step}@{name}:{times}" if name else f"{step}:{times}") as driver:
                driver.until_stopped()
                driver.kill()
    rig.settle()
    rig.judge(f"driver killed: {step}")
