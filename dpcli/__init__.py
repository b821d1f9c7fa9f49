"""dpcli: publish a sensitive table as a differentially private cube, and query what was published."""

__version__ = "0.1.0"
