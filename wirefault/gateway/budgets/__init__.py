"""Budgets at the gateway: the use by an episode and a run, and the refusal of requests beyond them."""
