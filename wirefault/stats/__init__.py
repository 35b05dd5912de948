"""Statistics of runs: intervals and percentiles. Pure; it imports from ``core`` alone."""
