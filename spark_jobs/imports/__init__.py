"""The job `import`: rows of files into the object store, or into a queue.

`planning` cuts the files into ranges, `reading` yields the rows of one, `mapping` makes documents
of them, `staging` keeps what became of each, and `storing` applies all of it in one commit.
"""
