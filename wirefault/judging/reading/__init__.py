"""What people's and models' words say: numbers with units, dates, times of day and texts. Pure."""
