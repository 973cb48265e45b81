"""The folder that an OpenSearch starts from."""

import os
import stat

import pytest

from headrace.embedded.opensearch_home import make_home, settings_text

JARS = (
    "io.netty__netty-common__4.1.118.Final",
    "org.opensearch.plugin__transport-netty4-client__2.19.1",
    "org.opensearch__opensearch__2.19.1",
    "org.opensearch__opensearch-core__2.19.1",
)


@pytest.fixture
def jars(tmp_path):
    made = [tmp_path / "cache" / f"{name}.jar" for name in JARS]
    made[0].parent.mkdir()
    for jar in made:
        jar.write_text(jar.name)
        jar.chmod(0o644)
    return made


@pytest.fixture
def closed_umask():
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_jars_have_their_own_names_and_what_speaks_http_is_a_module(tmp_path, jars):
    home = tmp_path / "home"
    make_home(home, jars)
    assert {path.name for path in (home / "lib").iterdir()} == {
        "opensearch-2.19.1.jar",
        "opensearch-core-2.19.1.jar",
    }
    module = home / "modules" / "transport-netty4"
    assert {path.name for path in module.glob("*.jar")} == {
        "netty-common-4.1.118.Final.jar",
        "transport-netty4-client-2.19.1.jar",
    }
    assert "opensearch.version=2.19.1\n" in (module / "plugin-descriptor.properties").read_text()


def test_a_home_of_the_same_jars_stays_and_one_of_others_is_made_anew(tmp_path, jars):
    home = tmp_path / "home"
    make_home(home, jars)
    (home / "config" / "keystore").touch()
    make_home(home, jars)
    assert (home / "config" / "keystore").exists()
    newer = jars[-1].with_name("org.opensearch__opensearch-core__2.19.2.jar")
    jars[-1].rename(newer)
    make_home(home, [*jars[:-1], newer])
    assert not (home / "config" / "keystore").exists()


def test_who_runs_roots_node_can_read_all_of_it_and_the_cache_stays_as_it_was(
    tmp_path, jars, closed_umask
):
    jars[-1].chmod(0o600)
    home = tmp_path / "home"
    make_home(home, jars)
    for path in (home, *home.rglob("*")):
        mode = path.stat().st_mode
        assert mode & stat.S_IROTH, path
        assert path.is_file() or mode & stat.S_IXOTH, path
    assert stat.S_IMODE(jars[-1].stat().st_mode) == 0o600


def test_each_setting_is_a_line_and_ones_own_come_over_those_chosen(tmp_path):
    said = settings_text(tmp_path, 1, 2, {"http.port": 3, "a.b": True})
    assert "http.port: 3\n" in said
    assert "a.b: true\n" in said
    assert said.count("http.port") == 1
