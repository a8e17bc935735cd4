"""django-kafka's side: a Django app with one consumer, run by `manage.py kafka_consume`."""
