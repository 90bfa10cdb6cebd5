"""Where the helpers of other tests are."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "outside/python"))
