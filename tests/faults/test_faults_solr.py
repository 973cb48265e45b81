"""An index in Solr: drivers killed in the write, and Solr killed and away for a minute.

The others go on meanwhile; afterwards each record has its document there.
"""

import pytest
from matrix import FULL, SERVICE, note
from rig import NAMES, Rig

from headrace.embedded import EmbeddedSolr
from headrace.embedded.addresses import free_ports
from headrace.errors import HeadraceError
from headrace.testing.ledger import Found, Place
from solr_cores import asking, found, make_core

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
COLUMNS = {
    **dict.fromkeys(("tenant", "whose", "topic"), "text"),
    **dict.fromkeys(("part", "record", "first", "until"), "bigint"),
    "newness": "version",
}
SOLR = """
from headrace.sinks import SolrIndex

@use_case(
    topic=TOPIC,
    sink=SolrIndex(
        "elsewhere",
        {{**COLUMNS, "newness": "version"}},
        key=("tenant", "topic", "part", "record"),
        newest_by="newness",
        key_in_one_lane=True,
        at="solr",
    ),
    guarantee="exactly-once",
)
def elsewhere(table, context):
    return places(table, context)
"""


@pytest.fixture
def node(tmp_path, solr_jars):
    """A Solr of the test's own, whose port stays the same."""
    with EmbeddedSolr(tmp_path / "solr", *free_ports(1)) as server:
        yield server


def documents_in(node):
    """What is in the index; nothing if nobody answers."""
    solr = asking(node)
    try:
        documents = found(solr, "elsewhere").values()
    except HeadraceError:
        return []
    finally:
        solr.close()
    return [
        Found(one["tenant"], Place(one["topic"], one["part"], one["record"])) for one in documents
    ]


def test_in_solr_each_document_is_there_whatever_is_killed_or_away(kafka, node, tmp_path):
    make_core(node, "elsewhere", COLUMNS)
    settings = {"connections": {"solr": {"url": node.url}}}
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=SOLR)
    with rig.sending(PER_S):
        rig.killed_and_away(
            "elsewhere", lambda: len(documents_in(node)), node.kill, node.start, DOWN_S
        )
    rig.kills += 4
    rig.caught_up((*NAMES, "elsewhere"))
    row = f"killed in writes to Solr, which is then killed and down for {DOWN_S:.0f} s"
    rig.judge(row)
    documents = documents_in(node)
    verdict = rig.ledger.judge(sorted(documents, key=lambda one: one.place))
    note(f"{row}: its documents", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign)), verdict
