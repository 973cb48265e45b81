"""A file of two use cases, and settings that name it."""

from headrace.deploying.offer import deployed_use_case, source_of
from headrace.settings import Settings

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles

def make(name):
    @use_case(topic="{topic}", sink=ParquetFiles(name), name=name)
    def handler(table, context):
        return {answer}
    return handler

{lines}
"""


def write(
    folder, names=("one", "two"), answer="None", file="use_cases.py", topic="{tenant}.visits"
):
    lines = "\n".join(f"{name} = make('{name}')" for name in names)
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(SOURCE.format(lines=lines, answer=answer, topic=topic))


def settings(**more):
    given = {"module": "use_cases.py", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}
    return Settings.model_validate({**given, "database_url": "sqlite:///x.db", **more})


def deployment_of(store, name="one"):
    return next(
        deployment for deployment in store.registry.deployments() if deployment.use_case == name
    )


def answers(store, folder, name="one", **more):
    """What the deployed version of a use case answers."""
    source = source_of(settings(**more), folder)
    return deployed_use_case(deployment_of(store, name), source)(None, None)


def after_look(monkeypatch, store, number, happens):
    """Let something happen right after the deployments were read so often."""
    looks, look = [], store.registry.deployments

    def looked():
        found = look()
        looks.append(found)
        if len(looks) == number:
            happens()
        return found

    monkeypatch.setattr(store.registry, "deployments", looked)
