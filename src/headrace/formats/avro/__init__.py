"""Avro as columns: schemas, what of a writer's schema a reader takes, and two ways to read it.

``schema_text`` -> ``resolving`` (a plan of ``steps``) -> ``by_record`` (the judge) and
``by_column`` (the quick one, which leaves to the judge whatever it does not like).
"""
