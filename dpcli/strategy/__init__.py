"""Strategies: what is measured, as a Kronecker product of one small transform per attribute."""
