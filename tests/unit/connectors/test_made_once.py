"""A client that is made when it is first asked for."""

import threading
import time

import pytest

from headrace.connectors.made_once import MadeOnce


class Client:
    """Of a library."""


@pytest.fixture
def closed():
    return []


def test_it_is_made_once_whoever_asks_and_another_one_when_it_was_given_up(closed):
    made = []

    def make():
        time.sleep(0.01)  # others ask meanwhile
        made.append(Client())
        return made[-1]

    client, had = MadeOnce(make, closed.append), []
    threads = [threading.Thread(target=lambda: had.append(client.had())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert had == made * 8
    client.close()
    client.close()
    assert closed == made
    assert client.had() is not closed[0]


def test_what_is_raised_where_it_is_made_is_raised_and_it_is_tried_again(closed):
    tries = iter([ValueError("no file"), Client()])

    def make():
        found = next(tries)
        if isinstance(found, ValueError):
            raise found
        return found

    client = MadeOnce(make, closed.append)
    with pytest.raises(ValueError, match="no file"):
        client.had()
    client.close()
    assert closed == []
    assert isinstance(client.had(), Client)
