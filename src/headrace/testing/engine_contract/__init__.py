"""What every engine must do, as tests.

The driver hands waves away and waits for what comes back. A wave that never does holds its lanes
for ever; one that comes back while a task of it still runs breaks the order of its lanes. Those are
laws here. A test module takes them all in, and says how an engine is made::

    from headrace.testing.engine_contract import *

    @pytest.fixture
    def new_engine(tmp_path):      # with a ``NumbersReader`` and a warehouse in this folder;
        return lambda: MyEngine(...)   # it can run two tasks at once and has nothing else to do

They hold for every engine, also one that runs waves only when it is asked for results. Where waves
run by themselves, in processes of this machine, there is one suite more to take in::

    from headrace.testing.engine_contract.running import TestRunning

``deadly`` may be overridden by a fake that plans an accident instead.
"""

from headrace.testing.engine_contract.begun import deadly, engine
from headrace.testing.engine_contract.ends import TestEnds
from headrace.testing.engine_contract.versions import TestVersions
from headrace.testing.engine_contract.waves import TestWaves

__all__ = ["TestEnds", "TestVersions", "TestWaves", "deadly", "engine"]
