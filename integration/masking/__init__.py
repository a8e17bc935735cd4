"""Masking: values at certain paths, headers and keys are hidden wherever a message is shown.

Without Django, so that bulk jobs hide the same values in the files that they write.
"""
