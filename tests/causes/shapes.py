"""The request shapes of ``shapes.yaml`` by name, read as any case file is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pytest_tokenparity import Request
from pytest_tokenparity.cases import load_case_file
from pytest_tokenparity.config import Config

SHAPES = Path(__file__).with_name("shapes.yaml")


@cache
def _requests() -> dict[str, Request]:
    # A shape belongs to no model: the reader is given a configuration that names none.
    config = Config(path=SHAPES.with_name("tokenparity.yaml"), golden_dir=SHAPES.with_name("golden"), models={})
    return {case.name: case.requests[0] for case in load_case_file(SHAPES, config).cases}


def shapes() -> dict[str, Request]:
    """Every shape's one request, in the order of the file; each with lists and mappings of its own."""
    return {name: request.copy() for name, request in _requests().items()}
