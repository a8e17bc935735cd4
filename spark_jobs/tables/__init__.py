"""Rows of database tables on their way into files: what exports and the archive have in common.

`columns` says what is read of a row and what proves that it arrived, `ranges` cuts a table,
`reading` streams rows out of one moment of the database, `masking` takes out of them what masking
rules hide. `parquet` writes and reads Parquet by Spark, `arrow` where tasks share no folder;
`keeping` makes files on a disk durable.
"""
