"""The job `repair`: one change in millions of held failures, and an operation that releases them.

`freezing` stores which messages are meant, `judging` says what the change makes of each, `applying`
keeps that and edits a part of them in one commit, and `releasing` ends the run.
"""
