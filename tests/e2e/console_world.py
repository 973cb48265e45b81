"""A world for the console to show: a thousand tenants that change, every kind of state and alert.

The real service takes minutes to get into half of these states, and into some only by luck. So the
browser is shown values of the same shapes, the same in every run, moved on by whoever holds them.
Shapes are those of the control API; what it does is tested on the real one.
"""

import base64
import math
import random
import time

from console_slots import USE_CASES, Slots, spread

NAMES = ("acme", "bolt", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper")
PATHS = ("pricing", "contact", "docs", "signup", "checkout")
TRACEBACK = """Traceback (most recent call last):
  File "/srv/use_cases/score.py", line 41, in score
    amount = Decimal(event["amount"])
decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]
"""


def in_bytes(raw):
    """Bytes as the API tells them."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = None
    return {"text": text, "base64": base64.b64encode(raw).decode()}


class World:
    """Everything that the pages ask for, as JSON-ready values."""

    def __init__(self, tenants=1000, seed=6, drivers=2):
        self.chance = random.Random(seed)
        self.drivers = [f"driver-{number + 1}" for number in range(drivers)]
        self.silent = set()
        self.began_s = time.time() - 4000
        self.audit = []
        self.keys = []
        #: offsets by partition, seek by seek
        self.sought = []
        self.tenants = {}
        for number in range(tenants):
            name = f"{NAMES[number % len(NAMES)]}-{number // len(NAMES):02d}"
            self.tenants[name] = self._tenant(name, number)
        self.failures = {n: self._failure(n, name) for n, name in enumerate(self._failed(), 7)}
        self._count_failures()
        self.slots = Slots(self.chance, self.drivers, sorted(self.tenants))
        for role, tenant, label in (
            ("operator", None, "first start"),
            ("viewer", None, "wall screen"),
            ("tenant", "acme-00", "acme, support"),
            ("sender", "acme-00", "acme web shop"),
            ("sender", "bolt-00", "bolt, old"),
        ):
            self.make_key(role, tenant, label)
        self.keys[-1]["revoked_at_s"] = time.time() - 40000

    # -- tenants ---------------------------------------------------------------------------------

    def _tenant(self, name, number):
        state, operator_state = "active", "active"
        if number % 97 == 5:
            state = "throttled"
        elif number % 113 == 7:
            state = "retrying"
        elif number % 211 == 9:
            state = "waiting"
        elif number % 307 == 12:
            state = operator_state = "suspended"
        busy = self.chance.paretovariate(1.1)
        return {
            "name": name,
            "state": operator_state,
            "stopped_by": [] if operator_state == "active" else ["operator"],
            "weight": 2.0 if number % 40 == 3 else 1.0,
            "throttle": {
                "records_per_s": 200.0 if state == "throttled" else None,
                "bytes_per_s": None,
                "burst_s": 1.0,
            },
            "figures": self._figures(state, min(busy, 400.0) * 3),
        }

    def _figures(self, state, rate):
        behind = 0 if self.chance.random() < 0.55 else int(rate * self.chance.random() * 0.9)
        lag_s = behind / max(rate, 0.1) if behind else 0.0
        note = ""
        if state != "active":
            behind = int(rate * 60 * (1 + self.chance.random()))
            lag_s = 40 + 400 * self.chance.random()
            note = {
                "throttled": "held to 200 records/s",
                "retrying": "temporary: the mail server answered 451; tried again in 8 s",
                "waiting": "its topic is not there",
                "suspended": "",
            }[state]
        done = 0.0 if state in {"waiting", "suspended"} else rate * self.chance.uniform(0.9, 1.05)
        return {
            "state": state,
            "lag_records": behind,
            "lag_s": lag_s,
            "in_per_s": rate,
            "out_per_s": done,
            "delay": spread(int(done * 45), 0.18 + 0.5 * self.chance.random() + lag_s * 0.6),
            "throttled": state == "throttled",
            "task_share": 0.0,
            "note": note,
            "streams_total": len(USE_CASES) if rate > 50 else 1,
            "failures_open": 0,
        }

    def _shares(self):
        used = sum(row["figures"]["out_per_s"] for row in self.tenants.values())
        for row in self.tenants.values():
            row["figures"]["task_share"] = row["figures"]["out_per_s"] / max(used, 1)

    def turn(self, part=0.35):
        """Two seconds go by; returns the rows that changed."""
        moved = []
        for row in self.tenants.values():
            if self.chance.random() > part:
                continue
            now = row["figures"]
            rate = max(0.4, now["in_per_s"] * self.chance.uniform(0.85, 1.18))
            opens = now["failures_open"]
            state = row["state"] if row["state"] != "active" else now["state"]
            stopped = state.startswith("suspended ")
            lag_s, lag_records = now["lag_s"], now["lag_records"]
            fresh = self._figures("active" if stopped else state, rate)
            if stopped:
                fresh |= {"lag_records": lag_records + 1, "lag_s": lag_s + 1}
            row["figures"] = fresh | {"failures_open": opens, "state": state, "note": now["note"]}
            if state != "active":
                row["figures"]["lag_s"] = max(1.0, lag_s * self.chance.uniform(0.97, 1.03))
                row["figures"]["lag_records"] = int(lag_records * self.chance.uniform(0.97, 1.03))
            moved.append(row)
        self._shares()
        self.slots.turn()
        return moved

    def seek(self, tenant, use_case, offsets=None, to=None, dry_run=False):
        if not dry_run:
            self.sought.append(to or offsets)
        told = f"effects of up to 1,000 records of {tenant}/{use_case} are made again"
        offsets = offsets or {"0": "0", "1": "0"}
        return {"offsets": offsets, "again": 1000, "passed": 0, "consequences": [told]}

    def set_state(self, name, state):
        """Suspend or resume."""
        row = self.tenants[name]
        row["state"] = state
        row["stopped_by"] = [] if state == "active" else ["operator"]
        row["figures"] = self._figures("active" if state == "active" else state, 40.0) | {
            "failures_open": row["figures"]["failures_open"]
        }
        return row

    # -- drivers -----------------------------------------------------------------------

    def summary(self):
        """The line on top."""
        now = time.time()
        rows = [row["figures"] for row in self.tenants.values()]
        beat = 3 + math.sin(now / 9)
        return {
            "at_s": now,
            "drivers": [
                {
                    "driver": name,
                    "at_s": now - (40 if name in self.silent else 1),
                    "lost": name in self.silent,
                    "started_at_s": self.began_s,
                    "slots": 4,
                    "slots_target": 4 + (number if beat > 3.5 else 0),
                    "slots_busy": min(4, max(0, int(beat))),
                    "executors": 2,
                    "spark_ui_url": f"http://127.0.0.1:{4040 + number}",
                }
                for number, name in enumerate(self.drivers)
            ],
            "tenants_total": len(rows),
            "streams_total": sum(row["streams_total"] for row in rows),
            "lag_records": sum(row["lag_records"] for row in rows),
            "in_per_s": sum(row["in_per_s"] for row in rows),
            "out_per_s": sum(row["out_per_s"] for row in rows),
            "alerts_total": len(self.alerts()),
        }

    # -- streams, failures, history --------------------------------------------------------------

    def streams(self, tenant):
        """Those of one tenant."""
        row = self.tenants[tenant]
        now = row["figures"]
        return [
            {
                "tenant": tenant,
                "use_case": use_case,
                "topic": f"{tenant}.{use_case}",
                "state": row["state"],
                "reason": None,
                "stopped_by": row["stopped_by"],
                "condition": {
                    "state": now["state"] if row["state"] == "active" else row["state"],
                    "reason": now["note"],
                    "retry_at_s": None,
                },
                "holder": self.drivers[0],
                "epoch": 3,
                "figures": now
                | {
                    "stream": [use_case, tenant],
                    "topic": f"{tenant}.{use_case}",
                    "records_total": 1_204_331,
                    "dead_letters_total": 4,
                    "lost_records_total": 0,
                    "passed_over_records_total": 7001,
                    "wave": "w17",
                    "lanes": [],
                },
            }
            for use_case in USE_CASES[: max(1, now["streams_total"])]
        ]

    def stream(self, tenant, use_case):
        """One, with its lanes."""
        found = next(stream for stream in self.streams(tenant) if stream["use_case"] == use_case)
        stopped = {
            failure["partition"]: number
            for number, failure in self.failures.items()
            if (failure["tenant"], failure["use_case"], failure["state"])
            == (tenant, use_case, "open")
        }
        behind = found["figures"]["lag_records"]
        return found | {
            "lanes": [
                {
                    "lane": f"{tenant}.{use_case}[{lane}]",
                    "partition": lane,
                    "next_offset": str(300_000 + 7_001 * lane),
                    "end": str(300_000 + 7_001 * lane + behind * (lane + 1) // 10),
                    "lag_records": behind * (lane + 1) // 10,
                    "failure": stopped.get(lane),
                }
                for lane in range(4)
            ],
            "schemas": [
                {
                    "column": "value",
                    "schema_id": id_,
                    "subject": f"{tenant}.{use_case}-value" if version else None,
                    "version": version,
                    "records": records,
                    "first_at_s": time.time() - 3000,
                    "last_at_s": time.time() - 20 * records,
                }
                for id_, version, records in (
                    ("100007", 2, 3),
                    ("100001", 1, 1204),
                    ("77", None, 5),
                    (None, None, 9),
                )
            ],
        }

    def _failed(self):
        names = list(self.tenants)
        return [names[0], *names[21:400:90]] if len(names) > 30 else names[:1]

    def _failure(self, number, tenant):
        whole = number % 4 == 2
        return {
            "id": number,
            "tenant": tenant,
            "use_case": "score",
            "lane": f"{tenant}.score[1]",
            "partition": 1,
            "topic": f"{tenant}.score",
            "from_offset": "307001",
            "until_offset": "307040",
            "offset": None if whole else "307001",
            "records": 39,
            "dead_letters": f"{tenant}.score.dlq",
            "goes_on_at": "307040" if whole else "307002",
            "code": "WorkerLost" if whole else "BadRecord",
            "message": "the worker died three times in this slice"
            if whole
            else "amount is not a number: 'twelve'",
            "attempts": 3,
            "at_s": time.time() - 400 * number,
            "state": "open",
        }

    def unread(self, tenant):
        """What a stream passed over, of tenants something of whom failed too."""
        why = "passed over offsets 300,000..307,001: its last driver did not give the stream back"
        gone = {"code": "PassedOver", "message": why, "attempts": 0, "state": "skipped"}
        bounds = {"from_offset": "300000", "until_offset": "307001", "records": 7001}
        return [
            failure | gone | bounds | {"id": number + 1000}
            for number, failure in self.failures.items()
            if failure["tenant"] == tenant
        ]

    def failure(self, number):
        """One, whole."""
        found = self.failures[number]
        record = None
        if found["offset"] is not None:
            value = b'{"event":"order","lead":"4711","amount":"twelve","note":"<b>two</b> boxes"}'
            record = {
                "key": in_bytes(b"4711"),
                "value": in_bytes(value),
                "headers": [
                    {"name": "content-type", **in_bytes(b"application/json")},
                    {"name": "trace", **in_bytes(bytes(range(240, 256)))},
                ],
            }
        return found | {"traceback": TRACEBACK, "record": record}

    def _count_failures(self):
        for row in self.tenants.values():
            row["figures"]["failures_open"] = 0
        for failure in self.failures.values():
            if failure["state"] == "open":
                figures = self.tenants[failure["tenant"]]["figures"]
                figures["failures_open"] += 1
                if figures["state"] == "active":
                    figures["state"] = "suspended 1/4"
                    figures["note"] = f"{failure['code']}: {failure['message']}"
        self._shares()

    def close_failure(self, number, state):
        """Retried or skipped."""
        self.failures[number]["state"] = state
        row = self.tenants[self.failures[number]["tenant"]]
        row["figures"] = row["figures"] | {"state": "active", "note": ""}
        self._count_failures()
        return {
            "failure": self.failures[number],
            "next_offset": str(307_001 + (state == "skipped")),
            "suspended": None,
        }

    def history(self, tenant, from_s, until_s):
        """Points a minute apart for two hours, then ten."""
        row = self.tenants[tenant]["figures"]
        points, at, now = [], math.floor(from_s / 600) * 600, time.time()
        while at < min(until_s, now - 30):
            length = 60 if at >= now - 7200 else 600
            wave = 1 + 0.35 * math.sin(at / 1900) + 0.2 * math.sin(at / 133)
            flood = 6.0 if 900 < now - at < 1400 else 1.0
            for use_case in USE_CASES[: row["streams_total"]]:
                count = int(row["in_per_s"] * wave * length)
                lag = int(40 * wave * flood**2)
                points.append(
                    {
                        "use_case": use_case,
                        "from_s": at,
                        "span_s": length,
                        "lag_records": lag,
                        "lag_s": lag / 30,
                        "records_in": int(count * min(flood, 3)),
                        "records_out": int(count * min(flood, 2)),
                        "task_s": 9.0,
                        "delay": spread(count, 0.4 * wave * flood),
                    }
                )
            at += length
        return points

    def sparks(self):
        """Half an hour by minute."""
        tenants = {}
        for number, (name, row) in enumerate(self.tenants.items()):
            base = row["figures"]["lag_s"] + 0.4
            tenants[name] = {
                "lag_s": [
                    base * (1.1 + math.sin(minute / 3 + number) + 0.5 * math.sin(minute * number))
                    for minute in range(30)
                ],
                "out_per_s": [1.0] * 30,
            }
        return {"from_s": time.time() - 1800, "span_s": 60, "tenants": tenants}

    def alerts(self):
        """One of every kind and more."""
        now = time.time()
        quarantined = [
            ("quarantined", "warning", failure["tenant"], failure["use_case"], None,
             failure["at_s"],
             f"partition {failure['partition']} waits at offset 307,001: {failure['message']}")
            for failure in self.failures.values()
            if failure["state"] == "open"
        ]  # fmt: skip
        slow = [name for name, row in self.tenants.items() if row["figures"]["state"] == "retrying"]
        rows = [
            *quarantined,
            *[("stalled", "critical", name, "mails", None, now - 190,
               "1,290 records wait and nothing was committed for 3 minutes") for name in slow[:2]],
            *[("lag-growing", "warning", name, "visits", None, now - 75,
               "84 s behind, 61 s a minute ago; the target is 30 s") for name in slow[2:4]],
            *[("driver-lost", "critical", None, None, name, now - 38,
               "silent for 38 s while it holds 512 streams") for name in sorted(self.silent)],
        ]  # fmt: skip
        names = ("kind", "severity", "tenant", "use_case", "driver", "since_s", "text")
        return [dict(zip(names, row, strict=True)) for row in rows]

    # -- keys ------------------------------------------------------------------------------------

    def make_key(self, role, tenant, label, expires_in_s=None):
        """A new one, as it is shown once."""
        now = time.time()
        key = {
            "prefix": f"{self.chance.getrandbits(32):08x}",
            "role": role,
            "tenant": tenant,
            "label": label,
            "created_at_s": now - 86400 * len(self.keys),
            "expires_at_s": None if expires_in_s is None else now + expires_in_s,
            "revoked_at_s": None,
        }
        self.keys.append(key)
        return key | {"key": f"hr_{key['prefix']}_{'x' * 43}"}

    def note(self, who, action, tenant, status, detail=""):
        """A line of the audit log."""
        line = (len(self.audit) + 1, time.time(), who, action, tenant, status, detail)
        names = ("id", "at_s", "who", "action", "tenant", "status", "detail")
        self.audit.insert(0, dict(zip(names, line, strict=True)))
