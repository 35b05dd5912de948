"""The evidence of an episode: the stage that each fault reached, and failed tries without a fault."""
