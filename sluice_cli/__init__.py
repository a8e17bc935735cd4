"""The command line of the operator API: for people and for CI, on any machine with Python."""
