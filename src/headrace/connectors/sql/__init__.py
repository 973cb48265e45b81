"""Tables in an SQL database: the sink, its statements, and what a database's errors mean."""
