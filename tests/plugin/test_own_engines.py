"""Engines of other people's, rude ones too: whatever they give or raise is one line, and each stands beside others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..harness import PLAIN, Project, Result, letters_config
from .test_bad_input import said_of, shows_a_traceback

CONFTEST = """
import asyncio
import dataclasses

import pytest_tokenparity as tp


class Letters:
    name = "letters"

    def ids(self, conversation, tools=None, **template_kwargs):
        return [ord(letter) for message in conversation for letter in f"{message['role']}: {message['content']}\\n"]


class OfProperty(tp.Engine):
    @property
    def name(self):
        return "mine"

    def render(self, request):
        return tp.Rendering(ids=Letters().ids(request.messages))


@dataclasses.dataclass(frozen=True)
class Frozen(tp.Engine):
    name: str = "mine"

    def render(self, request):
        return tp.Rendering(ids=Letters().ids(request.messages))


class Nameless(tp.Engine):
    def render(self, request):
        return tp.Rendering(ids=Letters().ids(request.messages))


class OfRaisingName(Letters):
    @property
    def name(self):
        raise ValueError("no name today")


class Giving(tp.Engine):
    name = "giving"

    def __init__(self, give):
        self.give = give

    def render(self, request):
        return self.give(request)


def raising(error):
    def give(request):
        raise error

    return Giving(give)


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Async:
    name = "async"

    async def ids(self, conversation, tools=None, **template_kwargs):
        return [1]


class AsyncRender(tp.Engine):
    name = "async"

    async def render(self, request):
        return tp.Rendering(ids=[1])


class Narrow:
    name = "narrow"

    def ids(self, conversation):
        return [1]


class Narrower(tp.Engine):
    name = "narrower"

    def render(self):
        return tp.Rendering(ids=[1])


SHARED = Frozen()
ENGINES = {
    "letters": Letters,
    "of-property": OfProperty,
    "frozen": Frozen,
    "nameless": Nameless,
    "of-raising-name": OfRaisingName,
    "shared": lambda: SHARED,
    "shared-too": lambda: SHARED,
    "unseen-text": lambda: Giving(lambda request: tp.Rendering(count=44, unseen="no IDs")),
    "unseen-none": lambda: Giving(lambda request: tp.Rendering(count=44, unseen=None)),
    "text-bytes": lambda: Giving(lambda request: tp.Rendering(text=b"abc")),
    "count-text": lambda: Giving(lambda request: tp.Rendering(count="44")),
    "count-float": lambda: Giving(lambda request: tp.Rendering(count=44.0)),
    "count-negative": lambda: Giving(lambda request: tp.Rendering(count=-1)),
    "refused-number": lambda: Giving(lambda request: tp.Rendering(refused=5)),
    "id-set": lambda: Giving(lambda request: tp.Rendering(ids={1, 2})),
    "invalid-conversation": lambda: Giving(lambda request: tp.assert_valid([])),
    "bare": lambda: raising(tp.TokenParityError("bare")),
    "golden-error": lambda: raising(tp.GoldenError("golden")),
    "empty": lambda: raising(tp.EngineError()),
    "lines": lambda: raising(tp.EngineError("first\\nsecond \\x1b[31mred")),
    "unreadable": lambda: raising(Unreadable()),
    "cancelled": lambda: raising(asyncio.CancelledError("gone")),
    "generator-exit": lambda: raising(GeneratorExit("gone")),
    "system-exit": lambda: raising(SystemExit(3)),
    "async-ids": Async,
    "async-render": AsyncRender,
    "narrow": Narrow,
    "narrower": Narrower,
}


def pytest_tokenparity_engine(config, model, name, options):
    return ENGINES[name]() if name in ENGINES else None
"""

EQUAL = ("letters", "of-property", "frozen", "nameless", "of-raising-name", "shared", "shared-too")
"""The engines whose name cannot be set, or is another one's: each works under the configured name."""

SAID = {
    "unseen-text": "must give `unseen` as a tuple of strings, it gave str 'no IDs'",
    "unseen-none": "must give `unseen` as a tuple of strings, it gave NoneType None",
    "text-bytes": "must give `text` as a string or None, it gave bytes b'abc'",
    "count-text": "must give `count` as a whole number or None, it gave str '44'",
    "count-float": "must give `count` as a whole number or None, it gave float 44.0",
    "count-negative": "must give `count` as a whole number or None, it gave int -1",
    "refused-number": "must give `refused` as a string or None, it gave int 5",
    "id-set": "must give a list of token IDs, it gave set, which has no order: {1, 2}",
    "invalid-conversation": (
        "raised InvalidConversation: the list of messages is empty: a request needs at least one (conftest.py:LINE)"
    ),
    "bare": "raised TokenParityError: bare (conftest.py:LINE)",
    "golden-error": "raised GoldenError: golden (conftest.py:LINE)",
    "empty": "raised EngineError without a message",
    "unreadable": "raised Unreadable: (its text cannot be had: __str__ raised RuntimeError) (conftest.py:LINE)",
    "cancelled": "raised CancelledError: gone (conftest.py:LINE)",
    "generator-exit": "raised GeneratorExit: gone (conftest.py:LINE)",
    "system-exit": "raised SystemExit: 3 (conftest.py:LINE)",
    "async-ids": "must give a list of token IDs, it gave a coroutine: `ids` must not be async",
    "async-render": "must give a Rendering, it gave a coroutine: `render` must not be async",
    "narrow": (
        "raised TypeError: Narrow.ids() takes 2 positional arguments but 3 were given (conftest.py:LINE): it should take "
        "(conversation, tools=None, **template_kwargs)"
    ),
    "narrower": (
        "raised TypeError: Narrower.render() takes 1 positional argument but 2 were given (conftest.py:LINE): it should "
        "take (request)"
    ),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run of them all against a golden that `letters` recorded; warnings nobody could raise would be seen too."""
    project = Project(
        tmp_path_factory.mktemp("own"),
        {
            "conftest.py": CONFTEST,
            "pytest.ini": "[pytest]\nfilterwarnings = error\n",
            "tokenparity.yaml": letters_config(*EQUAL, *SAID, "lines"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    project.pytest("--update-golden", "-k", "letters")
    return project.pytest()


def test_none_of_them_stops_the_run_or_shows_a_traceback(result: Result) -> None:
    assert f"{len(SAID) + 1} failed, {len(EQUAL)} passed" in result.output
    assert not shows_a_traceback(result)
    assert "never awaited" not in result.output


@pytest.mark.parametrize("name", SAID)
def test_what_it_gives_or_raises_is_one_line(result: Result, name: str) -> None:
    (lines,) = said_of(result, f"plain[tiny-{name}]")
    assert re.sub(r"conftest\.py:\d+", "conftest.py:LINE", lines[0]) == f"the engine {name!r} {SAID[name]}"


def test_an_error_of_several_lines_is_one_without_what_a_terminal_would_obey(result: Result) -> None:
    (lines,) = said_of(result, "plain[tiny-lines]")
    assert lines[0] == r"first second \x1b[31mred"


def test_one_engine_under_two_names_is_no_other_reference(tmp_path: Path) -> None:
    conftest = CONFTEST.replace(
        "return tp.Rendering(ids=Letters().ids(request.messages))\n\n\n@data",
        (
            "return tp.Rendering(ids=Letters().ids(request.messages))\n\n\n"
            "class Two(tp.Engine):\n"
            '    name = "two"\n\n'
            "    def render(self, request):\n"
            "        return tp.Rendering(ids=[1])\n\n\n"
            "TWO = Two()\n\n\n@data"
        ),
    ).replace('"shared": lambda: SHARED', '"first": lambda: TWO, "second": lambda: TWO')
    project = Project(
        tmp_path,
        {
            "conftest.py": conftest,
            "tokenparity.yaml": letters_config("first", "second"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    assert project.pytest("--update-golden").passed(2)
    assert '"engine": "first"' in project.read("golden/tiny/chat/plain.json")
    project.edit("conftest.py", "ids=[1]", "ids=[2]")
    result = project.pytest("-k", "second")
    assert "second leaves the golden at token 0" in result.output
    assert "became another engine" not in result.output


OF_TEMPLATE = """
import pytest_tokenparity as tp


class OfTemplate(tp.Engine):
    name = "of-template"

    def render(self, request):
        return tp.Rendering(ids=[1])

    TEMPLATE


def pytest_tokenparity_engine(config, model, name, options):
    return OfTemplate()
"""


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("def template_for(self, request): return '{{ messages }}'", None),
        ("def template_for(self, request): return None", None),
        ("def template_for(self, request): return 5", "`template_for` must give a string, it gave int 5"),
        ("def template_for(self): return 5", "`template_for` raised TypeError: OfTemplate.template_for() takes 1"),
        ("def version(self): raise SystemExit(3)", "`version` raised SystemExit: 3 (conftest.py:11)"),
    ],
)
def test_the_template_is_a_part_of_the_contract(tmp_path: Path, method: str, said: str | None) -> None:
    project = Project(
        tmp_path,
        {
            "conftest.py": OF_TEMPLATE.replace("TEMPLATE", method),
            "tokenparity.yaml": letters_config("of-template"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    result = project.pytest("--update-golden")
    assert not shows_a_traceback(result)
    if said is None:
        assert result.passed(1), result.output
        hashed = '"template_sha256": "' in project.read("golden/tiny/chat/plain.json")
        assert hashed == ("messages" in method)
    else:
        assert f"the engine 'of-template': {said}" in result.output


CHANGING = """
import pathlib

import pytest_tokenparity as tp


class Reference(tp.Engine):
    name = "reference"

    def render(self, request):
        if pathlib.Path("refuse").exists():
            raise tp.RequestRefused("not \\x1b[31mtoday\\nat all")
        return tp.Rendering(ids=[1, 2, 3], text="abc")


class OfText(tp.Engine):
    name = "of-text"

    def render(self, request):
        return tp.Rendering(text="abc")


def pytest_tokenparity_engine(config, model, name, options):
    return {"reference": Reference, "of-text": OfText}[name]()
"""


@pytest.fixture
def changing(tmp_path: Path) -> Project:
    """A reference that refuses where a file `refuse` is there, and beside it an engine that shows text alone."""
    return Project(
        tmp_path,
        {
            "conftest.py": CHANGING,
            "tokenparity.yaml": letters_config("reference", "of-text"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )


def test_a_text_is_not_compared_where_the_reference_refuses_now(changing: Project) -> None:
    changing.pytest("--update-golden")
    changing.write("refuse", "")
    result = changing.pytest("-k", "of-text")
    assert not shows_a_traceback(result)
    assert "its text is not compared: the reference refuses the request now" in result.output


def test_a_reference_that_refuses_now_is_not_held_against_itself(changing: Project) -> None:
    changing.pytest("--update-golden")
    changing.write("refuse", "")
    result = changing.pytest("-k", "reference")
    assert r"reference now refuses a request whose golden has 3 tokens: not \x1b[31mtoday at all" in result.output
    assert "(if it is right to refuse it now)" in result.output
    assert "if the new prompt is right" not in result.output


def test_a_refusal_is_not_recorded_without_a_word(changing: Project) -> None:
    changing.write("refuse", "")
    result = changing.pytest("--update-golden", "-k", "reference")
    said = r"golden/tiny/chat/plain.json: it is recorded as refused: not \x1b[31mtoday at all"
    assert said in result.output
    assert "recorded as refused" not in changing.pytest("--update-golden", "-k", "reference").output
    (changing.folder / "refuse").unlink()
    result = changing.pytest("-k", "reference")
    assert "reference now renders a request (3 tokens) whose golden is a refusal: not" in result.output
