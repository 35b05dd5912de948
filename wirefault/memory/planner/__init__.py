"""The planner: from remembered episodes to the next experiments, each with its reason and its risk."""
