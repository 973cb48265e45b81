"""Collections of Solr: the sink, its documents, and what errors mean."""
