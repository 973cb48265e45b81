"""The YAML file: what is refused, and that a refusal names file, line and key."""

import re
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.model.restarts import Restart
from headrace.model.starting import read_starting
from headrace.model.streams import DataLossPolicy
from headrace.policies.backpressure import PaceBounds
from headrace.ports import Server
from headrace.settings import Settings, read_settings

GOOD = """\
module: use_cases.py
kafka:
  bootstrap.servers: localhost:9092
  enable.ssl.certificate.verification: true
database_url: ${DATABASE}
use_cases:
  score:
    priority: 3
    startingOffsets: latest
    retries: 0
    handler_timeout: 500ms
    max_rate_per_lane: 20
    data_loss: skip
    options: {half_life: 10}
driver:
  bin_budget: 250ms
  slice_bytes: 8m
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "headrace.yaml"
    path.write_text(text)
    return path


def test_a_good_file_is_read_with_words_spark_users_know(tmp_path):
    settings = read_settings(write(tmp_path, GOOD), {"DATABASE": "sqlite:///x.db"})
    assert settings.kafka["enable.ssl.certificate.verification"] == "true"
    assert settings.of_use_case("score").startingOffsets == "latest"
    assert settings.of_use_case("score").options == {"half_life": "10"}
    score, react = settings.of_use_case("score"), settings.of_use_case("react")
    assert (score.retries, score.handler_timeout, score.max_rate_per_lane) == (0, 0.5, 20.0)
    assert (react.priority, react.retries, react.handler_timeout) == (1, 3, 30.0)
    assert react.max_rate_per_lane is None
    assert (score.data_loss, react.data_loss) == (DataLossPolicy.SKIP, DataLossPolicy.FAIL)
    assert settings.driver.bin_budget == 0.25
    assert settings.driver.slice_bytes == 8 * 1024 * 1024
    assert settings.store_url({}) == f"sqlite:///{tmp_path}/x.db"


BEGINS = "module: a.py\nuse_cases:\n  score:\n    startingOffsets: {said}\n"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("earliest", "earliest"),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00+00:00"),
        ("2026-11-01T10:00:00+02:00", "2026-11-01T10:00:00+02:00"),
        ("'2026-11-01T10:00:00Z'", "2026-11-01T10:00:00Z"),
        ("{visits: {0: 23, 1: -1}}", '{"visits": {"0": 23, "1": -1}}'),
        ("""'{"visits": {"0": 23}}'""", '{"visits": {"0": 23}}'),
    ],
)
def test_a_beginning_is_kept_as_it_is_meant_however_yaml_reads_it(tmp_path, said, kept):
    settings = read_settings(write(tmp_path, BEGINS.format(said=said)), {})
    found = settings.of_use_case("score").startingOffsets
    assert read_starting(found) == read_starting(kept)
    assert isinstance(found, str)


@pytest.mark.parametrize(
    "said",
    [
        "2026-11-01",
        "2026-11-01T10:00:00",
        "23",
        "[latest]",
        "{visits: 23}",
        "{visits: {0: yes}}",
        "{visits: {2026-11-01: 2026-11-01}}",
        "{2026-11-01: {0: [1]}}",
        "null",
    ],
)
def test_a_beginning_that_says_nothing_is_refused_by_its_line(tmp_path, said):
    with pytest.raises(ConfigError, match=r"line 4: use_cases\.score\.startingOffsets: "):
        read_settings(write(tmp_path, BEGINS.format(said=said)), {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("module: a.py\nmodul: b.py\n", "modul: there is no such key; is 'module' meant?"),
        (
            "module: a.py\nuse_cases: {score: {retry: 1}}\n",
            "line 2: use_cases.score.retry: there is no such key; is 'retries' meant?",
        ),
        ("module: a.py\nconsol: {port: 1}\n", "consol: there is no such key; is 'console' meant?"),
        ("module: a.py\nconsole: {x: 1}\n", "console.x: there is no such key; there are "),
        ("module: a.py\nregistry: {url: x}\n", "there are basic.auth.credentials.source, "),
        (
            "module: a.py\ndoors: {tls: {certificate: x}}\n",
            "no such key; is 'certificate_file' meant?",
        ),
        (
            "module: a.py\nconnections: {a: {url: b, records_per_s: {mst: 1}}}\n",
            "mst: there is no such key; is 'most' meant?",
        ),
        ("kafka: {}\n", "line 1: module: this key is missing"),
        ("module: a.py\ndriver:\n  bin_budget: soon\n", "line 3: driver.bin_budget: a duration"),
        ("module: a.py\ndriver:\n  bin_budget: 0s\n", "line 3: driver.bin_budget"),
        ("module: a.py\ndriver:\n  mirror_prefix: ''\n", "line 3: driver.mirror_prefix"),
        ("module: a.py\ndriver:\n  mirror_prefix: 'a '\n", "line 3: driver.mirror_prefix"),
        *(
            (f"module: a.py\ndriver:\n  mirror_prefix: {own}\n", f"begin with {own.rstrip('x')}")
            for own in ("headrace.tx.", "headrace.tx.x", "headrace.redrive.", "headrace-reader-x")
        ),
        ("module: a.py\ndriver:\n  slice_bytes: many\n", "line 3: driver.slice_bytes: a size"),
        (
            "module: a.py\nuse_cases:\n  score:\n    startingOffsets: middle\n",
            "line 4: use_cases.score.startingOffsets",
        ),
        (
            "module: a.py\nuse_cases:\n  score:\n    priority: 0\n",
            "line 4: use_cases.score.priority",
        ),
        (
            "module: a.py\nuse_cases:\n  score:\n    retries: -1\n",
            "line 4: use_cases.score.retries",
        ),
        (
            "module: a.py\nuse_cases:\n  score:\n    handler_timeout: 30\n",
            "line 4: use_cases.score.handler_timeout: a duration looks like",
        ),
        *(
            (
                f"module: a.py\nuse_cases:\n  score:\n    max_rate_per_lane: {rate}\n",
                "line 4: use_cases.score.max_rate_per_lane",
            )
            for rate in ("0", ".inf", ".nan")
        ),
        *(
            (f"module: a.py\nwarehouse: {url}\n", "line 2: warehouse: a URL")
            for url in (
                "s3a://bucket/files",
                "hdfs://name:8020/files",
                "file:///srv/files",
                "file:files",
                "dbfs:/files",
                "S3A://bucket",
                '" s3a://bucket"',
                "abfss://box@account.dfs.core.windows.net/files",
            )
        ),
        ("module: [a\n", "line 2"),
        ("- a\n- b\n", "a mapping is expected"),
        ("", "a mapping is expected"),
        ("module: ${NOBODY}\n", "${NOBODY} is used, but the environment has no such name"),
        ("module: a.py\nmaster: 2026-13-45\n", "a value cannot be: month must be in 1..12"),
        ("module: a.py\nkafka: &all\n  more: *all\n", "nested too deeply, or holds itself"),
    ],
)
def test_a_bad_file_is_refused_by_file_line_and_key(tmp_path, text, told):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_settings(path, {})
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("said", ["*s3cret", "!s3cret", "!pa's3cret", "!<s's3cret>"])
def test_a_password_that_is_not_in_quotes_is_not_repeated(tmp_path, said):
    path = write(tmp_path, f"module: m.py\npassword: {said}\n")
    with pytest.raises(ConfigError, match=r"line 2.*stands in quotes") as refused:
        read_settings(path, {})
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None, "it quotes the password"


def test_what_the_environment_lacks_for_kafka_and_registry_is_told_when_it_is_needed(tmp_path):
    text = (
        "module: a.py\ndatabase_url: sqlite:///a.db\n"
        "kafka:\n  bootstrap.servers: k:9092\n  sasl.password: ${KAFKA_PASSWORD}\n"
        "registry:\n  schema.registry.url: http://${USER}:${PASSWORD}@r\n"
    )
    path = write(tmp_path, text)
    settings = read_settings(path, {"USER": "me"})
    assert settings.store_url() == f"sqlite:///{tmp_path / 'a.db'}"
    assert "bootstrap.servers" in settings.kafka
    told = r"kafka: sasl.password: \$\{KAFKA_PASSWORD\} is used, but the environment has no such"
    with pytest.raises(ConfigError, match=told):
        settings.kafka_properties()
    with pytest.raises(ConfigError, match=r"registry: schema.registry.url: \$\{PASSWORD\} is used"):
        settings.registry_properties()
    whole = read_settings(path, {"USER": "me", "PASSWORD": "${x}", "KAFKA_PASSWORD": "secret"})
    assert whole.kafka_properties()["sasl.password"] == "secret"
    assert whole.registry_properties() == {"schema.registry.url": "http://me:${x}@r"}


def test_the_path_of_a_secret_may_come_from_the_environment_too(tmp_path):
    text = "module: a.py\nregistry:\n  basic.auth.user.info.file: ${WHERE}\n"
    settings = read_settings(write(tmp_path, text), {})
    with pytest.raises(ConfigError, match=r"its name: \$\{WHERE\} is used"):
        settings.registry_properties()


def test_a_warehouse_that_is_a_url_is_refused_with_what_to_give_and_without_its_password(tmp_path):
    path = write(tmp_path, "module: a.py\nwarehouse: s3a://me:hunter2@bucket/files\n")
    with pytest.raises(ConfigError, match="absolute path of a folder on a file system which") as e:
        read_settings(path, {})
    assert "hunter2" not in str(e.value)
    with pytest.raises(ValueError, match="a URL"):
        Settings(module="a.py", warehouse=Path("s3a://bucket/files"))


@pytest.mark.parametrize("folder", ["files", "a:b", "/mnt/a:b", "./s3a:/files", "/mnt/shared"])
def test_a_folder_with_a_colon_in_its_name_is_a_folder(tmp_path, folder):
    settings = read_settings(write(tmp_path, f"module: a.py\nwarehouse: {folder}\n"))
    assert settings.warehouse == tmp_path / folder


def test_every_fault_is_told_at_once(tmp_path):
    path = write(tmp_path, "modul: a\nspark: 3\n")
    with pytest.raises(ConfigError) as caught:
        read_settings(path, {})
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: 'headrace init' .* write it .* --config"):
        read_settings(tmp_path / "none.yaml")


def test_secrets_come_from_files_or_the_environment_and_do_not_show(tmp_path):
    (tmp_path / "url").write_text("postgresql://u:hunter2@db/x\n")
    text = f"module: a.py\ndatabase_url_file: {tmp_path / 'url'}\nsmtp_url: smtp://u:hunter2@m\n"
    text += "kafka: {sasl.password: hunter2}\nspark: {spark.ssl.keyPassword: hunter2}\n"
    settings = read_settings(write(tmp_path, text))
    assert settings.store_url({}) == "postgresql://u:hunter2@db/x"
    assert settings.mail_url({}) == "smtp://u:hunter2@m"
    assert "hunter2" not in repr(settings)


def test_a_secret_file_that_is_not_there_is_named(tmp_path):
    text = "module: a.py\ndatabase_url_file: /nowhere/url\n"
    settings = read_settings(write(tmp_path, text))
    with pytest.raises(ConfigError, match="/nowhere/url"):
        settings.store_url({})


def test_a_secret_file_that_is_no_text_is_named_and_nothing_of_it_shows(tmp_path):
    (tmp_path / "url").write_bytes(b"postgresql://u:hunter2@db/\xff")
    settings = read_settings(write(tmp_path, "module: a.py\ndatabase_url_file: url\n"))
    with pytest.raises(ConfigError, match=r"url is not UTF-8 text") as caught:
        settings.store_url({})
    assert caught.value.__cause__ is None


def test_without_a_store_the_message_says_what_to_set(tmp_path):
    settings = read_settings(write(tmp_path, "module: a.py\n"))
    with pytest.raises(ConfigError, match="DATABASE_URL"):
        settings.store_url({})
    url = settings.store_url({"DATABASE_URL": "sqlite:////var/y.db"})
    assert url == "sqlite:////var/y.db"


def test_relative_paths_start_at_the_folder_of_the_yaml_file(tmp_path, monkeypatch):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    for folder in (site, elsewhere):
        folder.mkdir()
    (site / "url").write_text("sqlite:///from-file.db\n")
    (site / "mail").write_text("smtp://u:hunter2@m\n")
    write(site, "module: a.py\nwarehouse: files\nsmtp_url_file: mail\ndatabase_url_file: url\n")
    monkeypatch.chdir(elsewhere)
    settings = read_settings(Path("../site/headrace.yaml"))
    assert settings.warehouse == site / "files"
    assert settings.mail_url({}) == "smtp://u:hunter2@m"
    assert settings.store_url({}) == f"sqlite:///{site}/from-file.db"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("sqlite:///rel.db", "sqlite:///{folder}/rel.db"),
        ("sqlite+pysqlite:///a/rel.db", "sqlite+pysqlite:///{folder}/a/rel.db"),
        ("sqlite:////var/abs.db", "sqlite:////var/abs.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://u:p@db/x", "postgresql://u:p@db/x"),
    ],
)
@pytest.mark.parametrize("place", ["file", "environment"])
def test_a_store_that_is_a_relative_file_is_in_that_folder_too(tmp_path, said, meant, place):
    named = f"database_url: '{said}'\n" if place == "file" else ""
    settings = read_settings(write(tmp_path, f"module: a.py\n{named}"))
    # Later choices, such as --master, keep the folder.
    settings = settings.model_copy(update={"master": "local[1]"})
    assert settings.store_url({"DATABASE_URL": said}) == meant.format(folder=tmp_path)


def test_the_registry_has_the_keys_that_users_know_and_its_secrets_do_not_show(tmp_path):
    (tmp_path / "pass").write_text("me:hunter2\n")
    text = """module: a.py
registry:
  schema.registry.url: ${URL}
  basic.auth.credentials.source: USER_INFO
  basic.auth.user.info.file: pass
  ssl.ca.location: ca.pem
"""
    url = "http://u:hunter3@a:8081"
    settings = read_settings(write(tmp_path, text), {"URL": url})
    assert settings.registry_properties() == {
        "schema.registry.url": url,
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "me:hunter2",
        "ssl.ca.location": "ca.pem",
    }
    assert "hunter" not in repr(settings)


def test_without_a_registry_nothing_is_said_of_one(tmp_path):
    assert read_settings(write(tmp_path, "module: a.py\n")).registry_properties() == {}


def test_an_unknown_key_of_the_registry_is_named_with_its_line(tmp_path):
    path = write(tmp_path, "module: a.py\nregistry:\n  schema.registry.uri: http://a\n")
    with pytest.raises(ConfigError, match=r"line 3: registry\.schema\.registry\.uri: there is no"):
        read_settings(path, {})


CONNECTIONS = """module: a.py
connections:
  history:
    url: postgresql://db/history
    user: headrace
    password: ${HISTORY_PASSWORD}
  archive:
    url_file: archive-url
    user_file: who
  here:
    url: sqlite:///here.db
"""


def test_connections_have_their_secrets_from_files_or_the_environment_and_show_none(tmp_path):
    (tmp_path / "archive-url").write_text("postgresql://u:hunter2@db/x\n")
    (tmp_path / "who").write_text("hunter3\n")
    path = write(tmp_path, CONNECTIONS)
    settings = read_settings(path, {"HISTORY_PASSWORD": "hunter4"})
    assert settings.servers() == {
        "history": Server("postgresql://db/history", "headrace", "hunter4"),
        "archive": Server("postgresql://u:hunter2@db/x", "hunter3"),
        "here": Server(f"sqlite:///{tmp_path}/here.db"),
    }
    assert "hunter" not in repr(settings) + repr(settings.servers())


def test_a_connection_says_how_much_it_is_given(tmp_path):
    said = "  crm: {url: a, records_per_s: {initial: 5, least: 0.5, most: 20}}\n  other: {url: b}\n"
    settings = read_settings(write(tmp_path, f"module: a.py\nconnections:\n{said}"))
    assert settings.paces() == {"crm": PaceBounds(5.0, 0.5, 20.0), "other": PaceBounds()}


def test_what_the_environment_lacks_for_a_connection_is_told_when_it_is_needed(tmp_path):
    (tmp_path / "archive-url").write_text("postgresql://db/x")
    (tmp_path / "who").write_text("me")
    settings = read_settings(write(tmp_path, CONNECTIONS), {})
    with pytest.raises(
        ConfigError, match=r"connections: history: password: \$\{HISTORY_PASSWORD\}"
    ):
        settings.servers()


@pytest.mark.parametrize("place", ["{tenant:.2}", "{tenant!r}", "{Tenant}", "{ tenant }"])
@pytest.mark.parametrize("field", ["url", "user", "url_file"])
def test_a_place_for_the_tenant_that_is_written_otherwise_is_refused(tmp_path, field, place):
    said = {"url": "postgresql://db/x", field: f"postgresql://db/of_{place}?a={{tenant}}"}
    if field == "url_file":
        (tmp_path / "address").write_text(said["url_file"])
        said = {"url_file": "address"}
    text = "".join(f"    {name}: '{value}'\n" for name, value in said.items())
    settings = read_settings(write(tmp_path, f"module: a.py\nconnections:\n  crm:\n{text}"), {})
    where = f"connections: crm: {field.removesuffix('_file')}: {place} "
    with pytest.raises(ConfigError, match=re.escape(where)):
        settings.servers()


def test_a_file_of_a_connection_that_is_not_there_is_named(tmp_path):
    settings = read_settings(write(tmp_path, CONNECTIONS), {"HISTORY_PASSWORD": "x"})
    with pytest.raises(ConfigError, match="archive-url cannot be read"):
        settings.servers()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "  history: {user: me}",
            r"line 3: connections\.history: say where it is: url, or url_file",
        ),
        ("  history: {url: a, pasword: b}", r"line 3: .*pasword: there is no such key"),
        (
            "  history: {url: a, records_per_s: {least: 5, most: 4}}",
            "least is not more than initial, and that not more than most",
        ),
        ("  history: {url: a, records_per_s: {most: 0}}", r"line 3: .*records_per_s\.most"),
        ("  'a b': {url: a}", r"line 3: connections\.a b.*"),
    ],
)
def test_a_connection_that_cannot_be_is_refused_with_its_line(tmp_path, said, told):
    with pytest.raises(ConfigError, match=told):
        read_settings(write(tmp_path, f"module: a.py\nconnections:\n{said}\n"))


RESTARTS = "module: a.py\nuse_cases:\n  score: {said}\n"


@pytest.mark.parametrize(
    ("said", "restart"),
    [
        ("{}", None),
        ("{restart: position}", None),
        ("{restart: latest, restart_after: 5m}", Restart(300.0)),
        ("{restart: latest, restart_after: 5m, max_age: 500ms}", Restart(300.0, 0.5)),
        ("{restart: latest, restart_after: 5m, max_age: null}", Restart(300.0)),
    ],
)
def test_what_becomes_of_a_stream_that_nobody_read_is_said(tmp_path, said, restart):
    settings = read_settings(write(tmp_path, RESTARTS.format(said=said)), {})
    assert settings.of_use_case("score").restarts == restart


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{restart: latest}", "score.*restart latest passes records over.*needs restart_after"),
        ("{restart_after: 5m}", "score.*restart_after is for restart latest"),
        ("{restart: position, max_age: 5m}", "score.*max_age is for restart latest"),
        ("{restart: latest, restart_after: 300}", "score.restart_after.*a duration looks like 10s"),
        ("{restart: latest, restart_after: 0s}", "score.restart_after.*greater than 0"),
        ("{restart: newest, restart_after: 5m}", "score.restart.*'position' or 'latest'"),
    ],
)
def test_a_restart_that_makes_no_sense_is_refused_by_name(tmp_path, said, told):
    with pytest.raises(ConfigError, match=told):
        read_settings(write(tmp_path, RESTARTS.format(said=said)), {})


def test_a_tab_that_indents_is_told_with_what_to_write(tmp_path):
    path = write(tmp_path, "module: use_cases.py\nuse_cases:\n\tpages: {retries: 2}\n")
    with pytest.raises(ConfigError, match=r"line 3, column 1: .*; indent with spaces"):
        read_settings(path, {})
