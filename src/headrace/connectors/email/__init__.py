"""Mails: the sink, and the talk to the server that takes them."""
