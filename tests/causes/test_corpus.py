"""Every shape of the corpus through a real llama-server, and what is said of each difference, kept in `expected/*.json`.

Each line of a table was read by a person: is that what the server did, and is that the field one would point at? Set the
environment variable REWRITE_EXPECTED to write the tables anew, then read the diff:

    REWRITE_EXPECTED=1 pytest tests/causes/test_corpus.py

``equal``, or who refuses the request; else the word, the causes, and where. ``causes`` of a request that the reference
refuses are those under which it would render what the server rendered. ``ids alone`` is there where the server's text is
needed: what is said without it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_tokenparity import Explanation, LlamaCppTokens, TokenizersTokens, explain

from ..real_models import Servers, fetch
from .shapes import shapes

EXPECTED = Path(__file__).parent / "expected"
REWRITE = bool(os.environ.get("REWRITE_EXPECTED"))
FAMILIES = ("qwen3", "gemma3", "llama3.1", "deepseek-v3")
CLOCK = datetime(2026, 1, 2, 3, 4, 5)

Said = Any
"""What a table says of one shape: JSON on one line."""


@cache
def reference(family: str) -> TokenizersTokens:
    return TokenizersTokens(fetch(family), clock=CLOCK)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(family: str, servers: Servers) -> Iterator[LlamaCppTokens]:
    with LlamaCppTokens(servers.url(family)) as engine:
        yield engine


def test_every_shape_is_explained_as_its_table_says(family: str, server: LlamaCppTokens) -> None:
    days = {today()}
    said = {name: said_of(family, name, server) for name in shapes()}
    days.add(today())  # the server's own date stands in Llama 3.1's prompts
    found = json.loads(without_dates(json.dumps(said, ensure_ascii=False), days))
    path = EXPECTED / f"{family}.json"
    if REWRITE:
        path.write_text(in_lines(found), encoding="utf-8", newline="\n")
    kept = json.loads(path.read_text(encoding="utf-8"))
    deviating = [
        f"{name}\n  kept  {line(kept.get(name))}\n  found {line(found.get(name))}"
        for name in {**kept, **found}
        if kept.get(name) != found.get(name)
    ]
    assert not deviating, f"{len(deviating)} of {len(found)} shapes of {family}:\n" + "\n".join(deviating)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_table_is_written_as_it_would_be_written_anew(name: str) -> None:
    text = (EXPECTED / f"{name}.json").read_text(encoding="utf-8")
    assert text == in_lines(json.loads(text))
    assert list(json.loads(text)) == list(shapes())


def test_every_table_is_of_a_family() -> None:
    assert {path.stem for path in EXPECTED.glob("*")} == set(FAMILIES)


def said_of(family: str, name: str, server: LlamaCppTokens) -> Said:
    request = shapes()[name]
    ours, theirs = reference(family).render(request), server.render(request)
    if theirs.ids is None:
        return "refused by llama-server" if ours.refused is None else "refused by both"
    if ours.ids == theirs.ids:
        return "equal"
    explained = [
        said_by(explain(reference(family), request, theirs.ids, text, engine="llama-server"))
        for text in (theirs.text, None)
    ]
    with_text, alone = explained
    return with_text if with_text == alone else {**with_text, "ids alone": alone}


def said_by(explanation: Explanation) -> dict[str, Said]:
    """An explanation as a table has it; what is empty is left out."""
    said: dict[str, Said] = {"word": explanation.word}
    if explanation.refused is not None:
        said["the reference"] = "refuses"
    said["causes"] = [str(cause) for cause in explanation.causes]
    if explanation.also:
        said["also"] = [str(cause) for cause in explanation.also]
    said["where"] = explanation.where
    if explanation.rest:
        said["rest"] = [explanation.rest, explanation.rest_where]
    return said


def today() -> str:
    return datetime.now().strftime("%d %b %Y")


def without_dates(text: str, days: set[str]) -> str:
    for day in days:
        text = text.replace(f"date: {day}", "date: DATE")
    return text


def line(said: Said) -> str:
    return json.dumps(said, ensure_ascii=False)


def in_lines(table: dict[str, Said]) -> str:
    """A table as a file: one line is one shape."""
    return "{\n" + ",\n".join(f"  {line(name)}: {line(said)}" for name, said in table.items()) + "\n}\n"
