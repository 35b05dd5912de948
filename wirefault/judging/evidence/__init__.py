"""The evidence of an episode: how far its faults got, and the failed tries that no fault explains."""
