"""An app that has never heard of Sluice."""
