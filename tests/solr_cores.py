"""Cores of a real Solr, each of a configuration of its own."""

import urllib.request
from urllib.parse import urlencode

import orjson

from headrace.connectors.solr.servers import Solr, address_of
from headrace.embedded.solr_home import make_config
from headrace.ports import Server

_TYPES = {
    "text": "text_general",
    "bigint": "plong",
    "version": "plong",
    "double": "pdouble",
    "boolean": "boolean",
    "bytes": "binary",
    "timestamp": "pdate",
    "date": "pdate",
}


def asking(server):
    """Who asks a server of ours."""
    return Solr("test", address_of(Server(server.url), "test"))


def make_core(server, name, columns):
    """Make an empty core with a field for each column; kinds may be types of fields."""
    make_config(server.folder / "home" / name)
    query = urlencode({"action": "CREATE", "name": name})
    # A machine that has much to do takes longer for it than a sink waits for an answer.
    urllib.request.urlopen(f"{server.url}/admin/cores?{query}", timeout=120).close()
    solr = asking(server)
    fields = [{"name": one, "type": _TYPES.get(kind, kind)} for one, kind in columns.items()]
    if fields:
        solr.asked(f"/{name}/schema", orjson.dumps({"add-field": fields}))
    solr.close()


def drop_core(server, name):
    """Drop a core with all it has."""
    query = urlencode({"action": "UNLOAD", "core": name, "deleteInstanceDir": "true"})
    solr = asking(server)
    solr.asked(f"/admin/cores?{query}")
    solr.close()


def found(solr, name, query="*:*"):
    """The documents that a query finds, by their id, without what Solr keeps for itself."""
    solr.asked(f"/{name}/update?commit=true", b"[]")
    asked = urlencode({"q": query, "rows": 10_000})
    documents = solr.asked(f"/{name}/select?{asked}")["response"]["docs"]
    for document in documents:
        del document["_version_"]
    return {document.pop("id"): document for document in documents}
