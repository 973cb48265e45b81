"""What every log and every slice reader must do, as tests.

Offsets are easy to get wrong by one, and gaps, tombstones and deleted topics are rare enough that
nobody notices for months. So the promises of ``headrace.ports.Log`` and ``SliceReader`` are tests
here, run on the fake and on real Kafka alike. A test module takes them all in, and says what log
they are for::

    from headrace.testing.log_contract import *

    @pytest.fixture
    def topics(): ...          # how to write to it: ``Topics``

    @pytest.fixture
    def log(topics): ...       # the log itself, closed after

    @pytest.fixture
    def reader_factory(topics): ...

    @pytest.fixture
    def connections(topics): ...    # what the factory needs; the key of seals is ``SEAL_KEY``

A log that does not say where its lanes end has a suite of its own, ``unknown_ends``. Brokers that
go away are not played here: they need processes to kill.
"""

from headrace.testing.log_contract.gaps import TestGaps
from headrace.testing.log_contract.log import TestLog
from headrace.testing.log_contract.reading import TestReader, open_reader, read
from headrace.testing.log_contract.rows import SEAL_KEY

__all__ = ["SEAL_KEY", "TestGaps", "TestLog", "TestReader", "open_reader", "read"]
