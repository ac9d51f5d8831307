"""The extensions of the design reference are no part of the distribution."""

import sys
from pathlib import Path

from browsing import browser

__all__ = ["browser"]

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "_ext"))
