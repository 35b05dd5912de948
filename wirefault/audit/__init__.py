"""The audit: every question about every call of an agent, each fault certain, compared with clean runs."""
