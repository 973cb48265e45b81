"""Databases that are spoken to by SQL: their addresses, and connections opened as exactness needs.

The store is in one, and a sink may write to another. Neither knows the other, and both need the
same of SQLite and PostgreSQL, so it stands here; MariaDB and MySQL are a sink's alone. What is kept
in them, and what their errors mean there, is said where they are used.
"""
