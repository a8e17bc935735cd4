"""Bulk jobs on Spark. They know neither Django nor Celery: arguments in, a report out.

`contract` says how they are asked and what they answer, `session` makes the one SparkSession,
`running` finds the job. Each job has a package of its own, and is what differs: `work` goes
through its parts, `staging` keeps what tasks made, `sending` sends it, `fencing` ends the run.
"""
