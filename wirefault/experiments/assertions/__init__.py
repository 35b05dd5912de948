"""Assertions on turns, episodes and arms: one class for each kind.

``registry`` lists them; ``on_arm`` combines their results over an arm.
"""
