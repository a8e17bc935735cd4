"""A Django project of somebody else's, as it is before and after Sluice is installed into it."""
