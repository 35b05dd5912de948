"""The native launcher: starts the lab's packages as processes, watches them, takes them down."""
