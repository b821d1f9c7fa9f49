"""The public domain (attributes, hierarchies, domain) and, apart from it, the PRIVATE reading of tables."""
