"""Where the demo keeps visits beside its files: Delta, and other servers if they are asked for.

Here these servers are started, and it is chosen which use cases run. What they have at the end is
held against what was sent in `reading_back.py`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from headrace.demo.in_cassandra import TABLE
from headrace.demo.reading_back import IN_CACHE, IN_CASSANDRA, IN_DELTA, IN_SEARCH, WORD
from headrace.demo.replicated import INDEX, LEADS
from headrace.embedded import EmbeddedCassandra, EmbeddedOpenSearch, EmbeddedValkey
from headrace.embedded.kinesis_program import node
from headrace.errors import ConfigError
from headrace.settings import Settings
from headrace.settings.connections import ConnectionSettings

#: folders of servers, in that of the demo
_CASSANDRA, _OPENSEARCH, _VALKEY = "cassandra", "opensearch", "valkey"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for beside Delta, and of which log visits are read."""

    cassandra: bool = False
    #: an index to search in, and a cache of leads' last visits
    replicate: bool = False
    #: visits go through its streams, and not through Kafka
    kinesis: bool = False

    def or_begun(self, folder: Path) -> Asked:
        """The same, and what a demo that was killed began with."""
        return Asked(
            self.cassandra or (folder / _CASSANDRA).is_dir(),
            self.replicate or (folder / _OPENSEARCH).is_dir(),
            self.kinesis,
        )

    def check(self) -> None:
        """See that it can be had together, and what no `pip install headrace` brings.

        Raises:
            ConfigError: it cannot, or a package is missing.
            ServerError: Node is missing.
        """
        if not self.kinesis:
            return
        if self.cassandra or self.replicate:
            raise ConfigError(
                "with --log kinesis visits are kept in files and in Delta alone: leave out --with "
                "and --replicate"
            )
        if missing := [name for name in _FOR_KINESIS if find_spec(name) is None]:
            raise ConfigError(
                f"--log kinesis needs {', '.join(missing)}: "
                "pip install 'headrace[demo,delta,kinesis]'"
            )
        node()


NOTHING_MORE = Asked()
_FOR_KINESIS = ("boto3", "deltalake")
_MODULES = {
    NOTHING_MORE: "headrace.demo.in_delta",
    Asked(cassandra=True): "headrace.demo.in_cassandra",
    Asked(replicate=True): "headrace.demo.replicated",
    Asked(kinesis=True): "headrace.demo.in_streams",
    Asked(cassandra=True, replicate=True): "headrace.demo.in_all",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """Those that can be had."""

    #: the settings, with the use cases that write to them
    settings: Settings
    #: what is told of them
    told: str
    #: those use cases; each is checked, also one that wrote nothing
    use_cases: tuple[str, ...]


def with_tables(settings: Settings, folder: Path, stack: ExitStack, asked: Asked) -> Tables:
    """See which tables can be had, and start what they need.

    Args:
        settings: of the demo without tables.
        folder: of the demo.
        stack: ends what is started.
        asked: beside Delta.

    Raises:
        ServerError: a server does not start.
    """
    asked = asked.or_begun(folder)
    if asked == NOTHING_MORE and find_spec("deltalake") is None:
        told = "no table in Delta or Cassandra is shown: pip install 'headrace[delta,cassandra]'"
        return Tables(settings, told, ())
    urls: dict[str, str] = {}
    told, use_cases = "visits are kept in a Delta table as well", [IN_DELTA]
    if asked.cassandra:
        cassandra = stack.enter_context(EmbeddedCassandra(folder / _CASSANDRA))
        urls[TABLE.at] = cassandra.url
        told += f", in Cassandra at {cassandra.url}"
        use_cases.append(IN_CASSANDRA)
    if asked.replicate:
        search = stack.enter_context(EmbeddedOpenSearch(folder / _OPENSEARCH))
        valkey = stack.enter_context(EmbeddedValkey(folder / _VALKEY))
        urls |= {INDEX.at: search.url, LEADS.at: valkey.url}
        told += f", in OpenSearch ({search.url}/*-visits/_search?q=path:{WORD})"
        told += f", and the last one of each lead in Valkey at {valkey.url}"
        use_cases += [IN_SEARCH, IN_CACHE]
    if asked == NOTHING_MORE:
        told += "; 'demo --with cassandra' and 'demo --replicate' keep them in other servers too"
    found: dict[str, object] = {
        "module": _MODULES[asked],
        "connections": {
            **settings.connections,
            **{name: ConnectionSettings(url=SecretStr(url)) for name, url in urls.items()},
        },
    }
    return Tables(settings.model_copy(update=found), told, tuple(use_cases))
