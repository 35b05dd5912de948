"""Measure the accuracy of the finding rules on real programs and their look-alikes."""
