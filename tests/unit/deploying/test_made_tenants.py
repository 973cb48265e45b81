"""`creates_tenants` is refused where nothing can come of it."""

import pytest
from two_use_cases import settings, write

from headrace.deploying.made_tenants import refuse_idle
from headrace.deploying.offer import load
from headrace.errors import ConfigError
from headrace.model.topic_patterns import pattern_text

OF_EACH = pattern_text(r"(?P<tenant>[a-z]+)\.visits")


@pytest.mark.parametrize(
    ("topic", "all_tenants", "told"),
    [
        ("{tenant}.visits", True, r"it reads \{tenant\}\.visits, and only topics that a pattern"),
        ("{tenant}.clicks,{tenant}.visits", True, "only topics that a pattern finds"),
        ("impressions", True, "only topics that a pattern finds"),
        (pattern_text("clicks-.*"), True, r"its pattern clicks-\.\* has no group \(\?P<tenant>"),
        (OF_EACH, False, "with all_tenants false none that is added gets a stream"),
    ],
)
def test_where_no_topic_can_make_a_tenant_that_is_said(topic, all_tenants, told):
    with pytest.raises(ConfigError, match=f"use_cases: count: creates_tenants is true.*{told}"):
        refuse_idle("count", topic, all_tenants=all_tenants)


def test_a_pattern_with_the_group_makes_tenants():
    refuse_idle("count", OF_EACH, all_tenants=True)


def test_whoever_deploys_one_is_told(tmp_path):
    """It was taken in silence, and no tenant ever came."""
    write(tmp_path, names=("one",), topic="{tenant}.visits")
    said = {"one": {"creates_tenants": True}}
    with pytest.raises(ConfigError, match="one: creates_tenants is true, and no topic can make"):
        load(settings(use_cases=said), tmp_path)
    assert load(settings(use_cases={"one": {}}), tmp_path).use_cases.keys() == {"one"}
