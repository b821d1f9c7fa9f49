"""Answers from an ISPE release: noisy cells, and noisy counts of regions that were drawn from them.

After Y. Xiao, L. Xiong, C. Yuan: *ISPE: Adaptive differentially private data release and query estimation*,
Emory University TR-2011-005, section 4 and appendices E and F.
"""
