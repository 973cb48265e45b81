"""An index in OpenSearch: drivers killed in the write, and the node killed and away for a minute.

The others go on meanwhile; afterwards each record has its document there.
"""

import uuid

import pytest
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, Rig

from headrace.connectors.search.servers import Cluster, address_of
from headrace.embedded import EmbeddedOpenSearch
from headrace.embedded.addresses import free_ports
from headrace.errors import HeadraceError
from headrace.ports import Server
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
SEARCH = """
from headrace.sinks import SearchIndex

@use_case(
    topic=TOPIC,
    sink=SearchIndex(
        "elsewhere",
        {{**COLUMNS, "newness": "version"}},
        key=("tenant", "topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="search",
        copies=0,
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def node(open_folder, opensearch_jars):
    """A node of the test's own, whose port stays the same."""
    with EmbeddedOpenSearch(open_folder / f"node-{uuid.uuid4().hex[:8]}", *free_ports(1)) as server:
        yield server


def documents_in(node):
    """What is in the index; nothing if it is not there, or nobody answers."""
    cluster = Cluster("test", address_of(Server(node.url), "test"))
    found, after = [], None
    try:
        cluster.asked("POST", "/elsewhere/_refresh")
        while True:
            body = {
                "size": 10_000,
                "sort": [
                    {"part": "asc"},
                    {"record": "asc"},
                    {"tenant.exact": "asc"},
                    {"topic.exact": "asc"},
                ],
            }
            if after is not None:
                body["search_after"] = after
            hits = cluster.asked("POST", "/elsewhere/_search", body)["hits"]["hits"]
            if not hits:
                break
            after = hits[-1]["sort"]
            found += [hit["_source"] for hit in hits]
    except HeadraceError:
        return []
    finally:
        cluster.close()
    return [Found(one["tenant"], Place(one["topic"], one["part"], one["record"])) for one in found]


@pytest.mark.parametrize("order", ORDERS)
def test_in_opensearch_each_document_is_there_whatever_is_killed_or_away(
    kafka, node, tmp_path, order
):
    settings = {"connections": {"search": {"url": node.url}}}
    rig = Rig(
        tmp_path / "service",
        kafka.bootstrap_servers,
        settings=settings,
        more=in_order(SEARCH, order),
    )
    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(documents_in(node)), node.kill, node.start, DOWN_S
        )
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = row_of(
        f"killed in writes to OpenSearch, which is then killed and down for {DOWN_S:.0f} s", order
    )
    rig.judge(row)
    found = documents_in(node)
    verdict = rig.judged(sorted(found, key=lambda one: one.place), order)
    note(f"{row}: its documents", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
