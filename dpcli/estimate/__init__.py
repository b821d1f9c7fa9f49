"""Estimates: from a release to answers with intervals. Nothing here can reach a table."""
