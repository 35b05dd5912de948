"""Budgets at the gateway: what an episode and a run have used up, and how requests beyond it are refused."""
