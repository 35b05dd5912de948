"""The questions, one file each."""
