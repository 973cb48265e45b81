"""What every store must do, as tests.

Whoever exchanges the store has to keep the promises of ``headrace.ports.Store``, and the ones that
matter show only when several holders, threads or restarts meet. So they are written here once and
run on every store: a suite for each part of the port, or several where a part promises much. A test
module takes them all in, and says what store they are for::

    from headrace.testing.store_contract import *

    @pytest.fixture
    def open_again(tmp_path):
        return lambda: MyStore(tmp_path)   # each call: the same data, other connections

    @pytest.fixture
    def store(open_again): ...             # one of them, on an empty database, closed after

What happens when a process is killed is not here: it needs processes, which are each store's own.
What ``Statistics`` promises is in ``statistics_contract``.
"""

from headrace.testing.store_contract.decisions import TestDecisions
from headrace.testing.store_contract.everyone import TestEveryone
from headrace.testing.store_contract.failures import TestFailures
from headrace.testing.store_contract.generations import TestGenerations
from headrace.testing.store_contract.intents import TestIntents
from headrace.testing.store_contract.keys import TestAudit, TestKeys
from headrace.testing.store_contract.left_alone import TestLeftAlone
from headrace.testing.store_contract.membership import TestMembership
from headrace.testing.store_contract.parents import TestDepths, TestParents
from headrace.testing.store_contract.positions import TestPositions
from headrace.testing.store_contract.progress import TestProgress
from headrace.testing.store_contract.reads import TestReads
from headrace.testing.store_contract.schema_subjects import TestSchemaSubjects
from headrace.testing.store_contract.state import TestKeptState, TestState
from headrace.testing.store_contract.stops import TestStops
from headrace.testing.store_contract.streams import TestStreams
from headrace.testing.store_contract.tenant_states import TestTenantStates
from headrace.testing.store_contract.tenants import TestTenants
from headrace.testing.store_contract.topic_lists import TestTopicLists

__all__ = [
    "TestAudit",
    "TestDecisions",
    "TestDepths",
    "TestEveryone",
    "TestFailures",
    "TestGenerations",
    "TestIntents",
    "TestKeptState",
    "TestKeys",
    "TestLeftAlone",
    "TestMembership",
    "TestParents",
    "TestPositions",
    "TestProgress",
    "TestReads",
    "TestSchemaSubjects",
    "TestState",
    "TestStops",
    "TestStreams",
    "TestTenantStates",
    "TestTenants",
    "TestTopicLists",
]
