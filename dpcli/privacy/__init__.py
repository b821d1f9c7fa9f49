"""Exact numbers and costs (public), and the PRIVATE core: noise, the gate to the data, the ledger."""
