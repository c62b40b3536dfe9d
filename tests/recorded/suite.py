"""The requests of the project's own suite (``tests/parity``) as shapes, so that recordings hold what it asks."""

from __future__ import annotations

from typing import Any

from pytest_tokenparity import Request
from pytest_tokenparity.cases import load_case_file
from pytest_tokenparity.config import load_config

from ..real_models import ROOT

FILES = ("chat", "requests", "text")
"""The case files, by their names without `.tokenparity.yaml`."""


def suite_requests() -> dict[str, dict[str, Any]]:
    """Each request by the name of its case and, among several, its number: in the neutral form of a shape."""
    config = load_config(ROOT / "tokenparity.yaml")
    found: dict[str, dict[str, Any]] = {}
    for file in FILES:
        for case in load_case_file(ROOT / "tests" / "parity" / f"{file}.tokenparity.yaml", config).cases:
            for number, request in enumerate(case.requests, 1):
                name = f"suite-{case.name}" + (f"-{number}" if len(case.requests) > 1 else "")
                found[name] = _neutral(request)
    return found


def _neutral(request: Request) -> dict[str, Any]:
    own = request.copy()
    form: dict[str, Any] = {"messages": own.messages}
    if own.tools is not None:
        form["tools"] = own.tools
    if own.template_kwargs:
        form["template_kwargs"] = own.template_kwargs
    flags = {key: value for key, value in own.keywords.items() if key not in own.template_kwargs}
    if own.continue_final_message:  # says the other by itself
        flags.pop("add_generation_prompt", None)
    return {**form, **flags}
