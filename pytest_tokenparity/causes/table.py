"""The table of causes: every way in which one engine's prompt is known to differ from another's."""

from __future__ import annotations

from collections.abc import Mapping

from . import of_calls, of_content, of_environment, of_losses, of_roles, of_text, of_tools, of_turns
from .cause import Cause

_MODULES = (of_tools, of_calls, of_losses, of_content, of_roles, of_turns, of_environment, of_text)

CAUSES: Mapping[str, Cause] = {cause.name: cause for module in _MODULES for cause in module.CAUSES}
