"""The ingest gateway: the HTTP door through which tenants send activities into their topics."""
