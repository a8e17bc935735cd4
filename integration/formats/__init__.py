"""Formats with a schema in a registry: Avro, JSON Schema and Protobuf, read and written."""
