"""Indexes of OpenSearch and Elasticsearch: the sink, its documents, and what errors mean."""
