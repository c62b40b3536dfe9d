"""Why two renderings differ: named changes under which the reference renders what the engine rendered."""

from __future__ import annotations

from .explanation import Explanation, NamedCause, explain
from .table import CAUSES

__all__ = ["CAUSES", "Explanation", "NamedCause", "explain"]
