"""In-memory twins of the ports, held to the same contract suite as the real adapters."""
