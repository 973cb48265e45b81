"""What a supervisor says while its drivers end."""

from dataclasses import replace

from structlog.testing import capture_logs

from headrace.fleet.decide import begin, decide
from headrace.fleet.publishing import FleetPublisher
from headrace.fleet.states import RestartRules, StopAsked


def test_who_ends_a_fleet_is_told_now_and_then_which_drivers_are_waited_for(tmp_path):
    tells = FleetPublisher("d", ["d-0", "d-1"], [None, None], tmp_path)
    running, _ = begin(2, RestartRules(), 0.0)
    tells.tell(running, {}, 10.0)
    ending, _ = decide(running, StopAsked(), 10.0)
    with capture_logs() as logs:
        for tenth in range(100, 171):
            tells.tell(ending, {}, tenth / 10)
        first, second = ending.drivers
        tells.tell(replace(ending, drivers=(replace(first, phase="stopped"), second)), {}, 20.0)
    said = [line["why"] for line in logs if line["event"] == "waits for drivers to end"]
    assert said == ["d-0, d-1", "d-0, d-1", "d-1"]
