"""The demo: real visits of one web site, through Kafka and Spark, into scores, mails and files.

A tenant is a section of the site and a lead is a visitor. Three use cases, and one for each table
that can be had, run while tenants are added, suspended, resumed and removed; at the end everything
is checked against a plain computation over the file that shares no code with the use cases.
"""
