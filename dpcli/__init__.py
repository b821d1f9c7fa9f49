"""dpcli: publish a sensitive table as a differentially private cube, and query what was published.

From Python, :mod:`dpcli.api` has one call per command, and ``dpcli.open`` opens a release file.
"""

from dpcli.api import open_release as open

__version__ = "0.1.0"
__all__ = ["open"]
