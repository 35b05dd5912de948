"""How far the faults of an episode came, and the failed tries that no fault explains."""
