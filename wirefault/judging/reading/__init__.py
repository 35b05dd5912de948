"""Read the prose of models: numbers with units, dates, times of day and texts. Pure."""
