"""Partitions: smoothing noisy counts and growing regions of similar cells, both from public values only."""
