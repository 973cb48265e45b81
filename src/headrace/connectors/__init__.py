"""All talk to outside systems that hold records: one folder for each, and none knows another.

A folder holds everything that speaks to its kind of server, whichever way the records go: what is
read, what is written, how its errors are put into ours. What several sinks need stands here once:
``outcomes`` says how a group of effects ended, ``columns`` compares a result with what is expected.

Users name sinks by ``headrace.sinks``. The store's own tables are `store/`, not a connector.
"""
