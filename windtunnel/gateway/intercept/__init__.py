"""A subject's connections, taken as they are: where they go, and the two taps' way there."""
