"""Other programs at the work of a queue: from Kafka into PostgreSQL, as their pages advise."""
