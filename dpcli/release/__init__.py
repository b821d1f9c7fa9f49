"""Releases: measurements with their noise law, and the Parquet file that holds them."""
