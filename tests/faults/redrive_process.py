"""An operator who redrives the dead letters of one stream again and again, with limits and without.

Arguments: the broker, the topic, a seed.
"""

import contextlib
import random
import sys

from headrace.connectors.kafka import dead_letters_read
from headrace.connectors.kafka.redrive import redrive
from headrace.errors import HeadraceError
from headrace.model.streams import StreamId
from headrace.ports import Connections

#: the last one without a limit
TIMES = 12


def main(servers, topic, seed):
    random.seed(int(seed))
    # Many small transactions have many places to be killed at.
    dead_letters_read._BATCH_LETTERS = 5
    connections = Connections({"bootstrap.servers": servers}, "", seal_key=b"of the store")
    for limit in [*random.choices([None, 7, 30], k=TIMES), None]:
        with contextlib.suppress(HeadraceError):
            redrive(connections, StreamId("pages", "acme"), topic, limit=limit)


if __name__ == "__main__":
    main(*sys.argv[1:])
