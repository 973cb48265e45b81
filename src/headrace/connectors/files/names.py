"""What the file of an effect is called, on a disk and in an object store alike.

Nothing but the effect's identity decides it, so that one that is written again has the same name::

    tenant=<tenant>/<use case>@<topic>-<lane>-<from>-<reached>.parquet

with places of 20 digits or more, so that names sort as the log does, and the number of a lane of
that topic, or else its name; an effect of several lanes (order ``stream``) has the name of its
first lane, followed by ``-and-`` and 16 digits of the SHA-256 of its whole identity. Where rows are
divided, folders ``column=value`` stand between, as Hive has them.

Characters outside ``A-Z a-z 0-9 . _ -`` are percent-encoded, as Hive and Spark do it, so that no
name can leave its folder. A file system takes 255 bytes: of a longer name, what stands before the
places is cut, and followed by ``--`` and 16 digits of the SHA-256 of all of it. The value of a
column is not cut, since it is read back: one that is longer is refused.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePosixPath
from urllib.parse import quote

from headrace.connectors.outcomes import identity
from headrace.model.lane_names import written_name
from headrace.model.streams import original
from headrace.ports import Effect

#: bytes of a name that file systems take
MOST = 255
#: what is left of a percent-encoding that was cut
_CUT_WITHIN = re.compile("%[0-9A-F]?$")


def file_name(effect: Effect) -> PurePosixPath:
    """Name the file of an effect, below the sink's folder; nothing but its identity decides it."""
    first, reached = effect.slices[0], effect.reached[0]
    # A list of topics may become longer, and what it wrote is to be known again.
    lane, topic = first.lane, first.lane_topic
    name = (
        f"{encoded(original(lane.use_case))}@{encoded(topic)}"
        f"-{encoded(written_name(lane.name, topic))}"
    )
    places = f"-{first.from_offset:020d}-{reached:020d}"
    if len(effect.slices) > 1:
        places += f"-and-{_digest(identity(effect))}"
    tenant = _fitting("tenant=" + encoded(lane.tenant), "")
    return PurePosixPath(tenant) / _fitting(name, f"{places}.parquet")


def _fitting(name: str, end: str) -> str:
    """A name with its end, cut and with a digest of it all if it is longer than names may be."""
    if len(name) + len(end) <= MOST:
        return name + end
    mark = f"--{_digest(name)}"
    kept = name[: MOST - len(mark) - len(end)]
    return _CUT_WITHIN.sub("", kept) + mark + end


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encoded(name: str) -> str:
    """A name as it may stand in a path; readers pass over none that is made here."""
    # A file whose name starts with "." or "_" would be passed over by readers.
    made = quote(name, safe="").replace("~", "%7E")
    return f"%{ord(made[0]):02X}{made[1:]}" if made[:1] in {".", "_"} else made
