"""Kafka's topics as bulk jobs see them; `producing` is their only way to write records."""
