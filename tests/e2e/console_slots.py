"""Slots, waves and use cases of the made-up world: what ran where, and how long it took."""

import math
import time

USE_CASES = ("score", "visits", "mails")


def spread(count, middle):
    """Figures as a sketch gives them, around a median in seconds."""
    if not count:
        return dict.fromkeys(("min_s", "p50_s", "p95_s", "p99_s", "max_s")) | {"count": 0}
    return {
        "count": count,
        "min_s": middle * 0.31,
        "p50_s": middle,
        "p95_s": middle * 2.6,
        "p99_s": middle * 4.9,
        "max_s": middle * 7.7,
    }


def use_cases():
    """All of them, with figures."""
    kinds = {"score": (0.9, 0.04, 1.4), "visits": (0.35, 0.03, 0.6), "mails": (4.2, 0.05, 7.5)}
    return [
        {
            "use_case": name,
            "topic": f"{{tenant}}.{name}",
            "order": "lane",
            "guarantee": "exactly-once" if name != "mails" else "at-least-once",
            "priority": "normal",
            "bad_record": "suspend" if name == "score" else "dead-letter",
            "digest": "8f14e45f",
            "figures": {
                "use_case": name,
                "waves_total": 900,
                "processing": spread(900, kinds[name][0]),
                "scheduling": spread(900, kinds[name][1]),
                "delay": spread(51234, kinds[name][2]),
                "records_per_s": 900 + 120 * math.sin(time.time() / 20 + len(name)),
                "bytes_in_per_s": 412_345.0,
                "bytes_out_per_s": None if name == "mails" else 98_400.0,
                "pace_per_s": 950 + 40 * math.sin(time.time() / 31) if name == "mails" else None,
            },
        }
        for name in USE_CASES
    ]


class Slots:
    """Waves of the last ten minutes; ``waves`` are rows as the API tells them, newest first."""

    def __init__(self, chance, drivers, tenants):
        self.chance, self.drivers, self.tenants = chance, drivers, tenants
        self.waves_made = 0
        self.waves = []
        self._past()

    def _past(self):
        for driver in self.drivers:
            for slots in ((0, 1), (2,), (3,)):
                at = time.time() - 620
                while at < time.time() - 2:
                    took = self.chance.uniform(1.5, 6.0) * (2 if slots == (3,) else 1)
                    self._wave(driver, slots, at, at + took)
                    at += took + self.chance.expovariate(0.8)
        self.waves.sort(key=lambda wave: -wave["started_at_s"])
        del self.waves[500:]

    def _wave(self, driver, slots, from_s, until_s):
        self.waves_made += 1
        draw = self.chance.random()
        outcome = "failed" if draw < 0.02 else "yielded" if draw < 0.12 else "done"
        names = self.chance.sample(self.tenants, min(8, len(self.tenants)))
        total = self.chance.choice((1, 1, 4, 12, 60))
        wave = {
            "wave": f"w{self.waves_made}",
            "driver": driver,
            "use_case": USE_CASES[slots[0] % len(USE_CASES)],
            "started_at_s": from_s,
            "ended_at_s": until_s,
            "bins": [
                {
                    "slot": slot,
                    "tenants": names[:total],
                    "tenants_total": total,
                    "records": self.chance.randint(20, 900) * min(total, 12),
                    "outcome": outcome if slot == slots[0] else "done",
                }
                for slot in slots
            ],
            "error": "PythonException: worker exited" if outcome == "failed" else "",
        }
        self.waves.insert(0, wave)
        return wave

    def turn(self):
        """Some waves end, others begin."""
        now = time.time()
        for wave in [wave for wave in self.waves if wave["ended_at_s"] is None]:
            if self.chance.random() < 0.4:
                wave["ended_at_s"] = now - self.chance.random()
                for bin_ in wave["bins"]:
                    bin_["outcome"] = "yielded" if self.chance.random() < 0.1 else "done"
        busy = {
            (wave["driver"], bin_["slot"])
            for wave in self.waves
            if wave["ended_at_s"] is None
            for bin_ in wave["bins"]
        }
        for driver in self.drivers:
            for slots in ((0, 1), (2,), (3,)):
                if (driver, slots[0]) not in busy and self.chance.random() < 0.7:
                    wave = self._wave(driver, slots, now - self.chance.random() / 2, None)
                    wave["error"] = ""
                    for bin_ in wave["bins"]:
                        bin_["outcome"] = "running"
        del self.waves[500:]
