"""Memory: recorded runs in one file, and the knowledge about components and faults that follows from them."""
