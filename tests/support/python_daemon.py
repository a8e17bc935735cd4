"""PySpark's daemon, from which workers are forked, with all that bulk jobs import loaded already.

A worker of its own would import for a second, and one is new after each task that fails.
"""

import gc
import threading

import pyspark.worker
from pyspark.daemon import manager

import spark_jobs.running

LOADED = (pyspark.worker, spark_jobs.running)

if __name__ == "__main__":
    assert threading.active_count() == 1, "a thread would be missing in the workers"
    # The collectors of the workers pass over all of it.
    gc.collect()
    gc.freeze()
    manager()
