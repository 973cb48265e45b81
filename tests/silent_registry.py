"""A registry that says nothing is as silent after a second as after the five of a real look-up."""

from contextlib import contextmanager

import pytest

from headrace.connectors.schema_registry import lookups, subjects


@contextmanager
def in_vain_for(seconds):
    """Within it whoever asks a registry gives up after so long."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (lookups, subjects):
            patch.setattr(room, "LOOKUP_S", seconds)
        yield
