"""Traces of messages across systems: W3C Trace Context, spans, and the port to where they go."""
