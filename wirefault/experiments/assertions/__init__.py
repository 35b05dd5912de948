"""What an experiment may demand of single turns, episodes and arms, each demand one class.

``registry`` lists them all; ``on_arm`` puts what they say of episodes together into a statement on an arm.
"""
