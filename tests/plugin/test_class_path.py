"""`type: "mypkg.engines:Mine"`: an engine of one's own without a hook, and every way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tokenparity.config import load_config
from pytest_tokenparity.errors import ConfigError

from ..harness import PLAIN, Project, Result
from ..real_models import QWEN3
from .test_bad_input import shows_a_traceback

TEN_LINES = """
class Mine:
    name = "mine"

    def __init__(self, shift=0, **options):
        self.shift, self.options = shift, options

    def ids(self, conversation, tools=None, **template_kwargs):
        return [ord(letter) + self.shift for message in conversation for letter in message["content"]]
"""
ENGINES = (
    TEN_LINES
    + '''

import pytest_tokenparity as tp


class Shown(tp.Engine):
    """An engine that writes down what it was made with."""

    def __init__(self, **options):
        self.options = options

    def render(self, request):
        return tp.Rendering(refused=repr(sorted(self.options.items())))


class Outer:
    class Inner(Mine):
        pass


class Raising(Mine):
    def __init__(self, **options):
        raise ValueError("no licence\\nfound")


class Unreachable(Mine):
    def __init__(self, **options):
        raise tp.EngineUnreachable("nobody is at home", "come again")


class Narrow(Mine):
    def __init__(self, address):
        pass


class Without:
    name = "without"

    def __init__(self, **options):
        pass


class Mute(Mine):
    ids = None


async def awaited(**options):
    return Mine()


def made(**options):
    return Mine(**options)


def classes(**options):
    return Mine


def nothing(**options):
    return None


TEXT = "Mine"
'''
)


def project(folder: Path, engines: str, **files: str) -> Project:
    config = f"models:\n  tiny:\n    tokenizer: {QWEN3}\n    engines:\n      letters: {{type: 'mypkg.engines:Mine'}}\n"
    given = {f"{name.replace('__', '/')}.py": text for name, text in files.items()}
    return Project(
        folder,
        {
            "mypkg/__init__.py": "",
            "mypkg/engines.py": ENGINES,
            "tokenparity.yaml": config + engines,
            "chat.tokenparity.yaml": PLAIN,
            **given,
        },
    )


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run with engines that work, started in a folder below the configuration's."""
    options = "url: '${MY_URL:-http://x}/v1', model: '${MY_MODEL}', deep: {list: [1, 2.5, true, null]}"
    engines = (
        "      again: {type: 'mypkg.engines:Mine', note: aloud}\n"
        "      shifted: {type: 'mypkg.engines:Mine', shift: 1}\n"
        f"      shown: {{type: 'mypkg.engines:Shown', {options}}}\n"
        "      inner: {type: 'mypkg.engines:Outer.Inner'}\n"
        "      made: {type: 'mypkg.engines:made'}\n"
        "      hooked: {type: 'mypkg.engines:Mine'}\n"
    )
    hook = """
def pytest_tokenparity_engine(config, model, name, options):
    if name == "hooked":
        from mypkg.engines import Mine

        return Mine(shift=3)
"""
    made = project(tmp_path_factory.mktemp("right"), engines, conftest=hook)
    made.write("pytest.ini", "[pytest]\n")
    made.write("sub/deep.tokenparity.yaml", PLAIN)
    return made.pytest("--update-golden", start="sub", COLUMNS="250", MY_MODEL="qwen")


def test_a_class_of_ones_own_is_an_engine_in_ten_lines(right: Result) -> None:
    assert len(TEN_LINES.strip().splitlines()) < 10
    assert "3 failed, 4 passed" in right.output
    assert '"engine": "letters (mypkg.engines.Mine)"' in right.file("golden/tiny/sub/deep/plain.json")


def test_two_engines_of_one_class_stand_beside_each_other(right: Result) -> None:
    assert "\nshifted leaves the golden at token 0 (28 tokens recorded, 28 rendered)\n" in right.output
    assert "again leaves the golden" not in right.output


def test_options_arrive_as_keywords_expanded_and_without_the_type(right: Result) -> None:
    said = "[('deep', {'list': [1, 2.5, True, None]}), ('model', 'qwen'), ('url', 'http://x/v1')]"
    assert said in right.output


@pytest.mark.parametrize("name", ["inner", "made"])
def test_a_class_in_a_class_and_a_function_that_makes_one_do_as_well(right: Result, name: str) -> None:
    assert f"plain[tiny-{name}] -" not in right.output


def test_the_hook_comes_first(right: Result) -> None:
    assert "\nhooked leaves the golden at token 0 (28 tokens recorded, 28 rendered)\n" in right.output


# What can be wrong: one line each, with the place in the configuration

WRONG = {
    "no-module": (
        "nopkg.engines:Mine",
        "`type: nopkg.engines:Mine` cannot be imported: ModuleNotFoundError: No module named 'nopkg'",
    ),
    "no-submodule": (
        "mypkg.engine:Mine",
        "`type: mypkg.engine:Mine` cannot be imported: ModuleNotFoundError: No module named 'mypkg.engine'",
    ),
    "no-class": (
        "mypkg.engines:Mien",
        "`type: mypkg.engines:Mien` cannot be imported: AttributeError: module 'mypkg.engines' has no attribute 'Mien'",
    ),
    "text": ("mypkg.engines:TEXT", "`type: mypkg.engines:TEXT` is str, not a class"),
    "broken": (
        "mypkg.broken:Mine",
        "`type: mypkg.broken:Mine` cannot be imported: ZeroDivisionError: division by zero (broken.py:1)",
    ),
    "unparsed": ("mypkg.unparsed:Mine", "`type: mypkg.unparsed:Mine` cannot be imported: SyntaxError: "),
    "exiting": ("mypkg.exiting:Mine", "`type: mypkg.exiting:Mine` cannot be imported: SystemExit: 3 (exiting.py:3)"),
    "raising": ("mypkg.engines:Raising", "mypkg.engines:Raising raised ValueError: no licence found (engines.py:32)"),
    "narrow": (
        "mypkg.engines:Narrow",
        (
            "mypkg.engines:Narrow raised TypeError: Narrow.__init__() got an unexpected keyword argument 'a': it should take "
            "the engine's options as keywords"
        ),
    ),
    "without": ("mypkg.engines:Without", "mypkg.engines:Without gives Without, which has no `name` and `ids`"),
    "awaited": ("mypkg.engines:awaited", "mypkg.engines:awaited gives coroutine, which has no `name` and `ids`"),
    "classes": ("mypkg.engines:classes", "mypkg.engines:classes gives type, which has no `name` and `ids`"),
    "nothing": ("mypkg.engines:nothing", "mypkg.engines:nothing gives NoneType, which has no `name` and `ids`"),
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One run with every wrong class; each engine's line is known."""
    engines = "".join(f"      {name}: {{type: '{path}', a: 1}}\n" for name, (path, _) in WRONG.items())
    engines += "      unreachable: {type: 'mypkg.engines:Unreachable'}\n      mute: {type: 'mypkg.engines:Mute'}\n"
    engines += "      dotted: {type: mypkg.engines.Mine}\n"
    made = project(
        tmp_path_factory.mktemp("wrong"),
        engines,
        mypkg__broken="1 / 0\n",
        mypkg__unparsed="class Mine(:\n",
        mypkg__exiting="import sys\n\nsys.exit(3)\n",
    )
    return made.pytest("--update-golden", "-Werror", COLUMNS="300")


@pytest.mark.parametrize("name", WRONG)
def test_a_class_that_cannot_be_used_is_one_line_with_its_place(wrong: Result, name: str) -> None:
    line = 6 + list(WRONG).index(name)
    (said,) = [
        it for it in wrong.output.splitlines() if it.startswith("tokenparity.yaml:") and f"engines.{name}: " in it
    ]
    assert said.startswith(f"tokenparity.yaml:{line}: models.tiny.engines.{name}: {WRONG[name][1]}")


def test_none_of_them_ends_the_run_or_shows_a_traceback(wrong: Result) -> None:
    assert not shows_a_traceback(wrong)
    assert f"{len(WRONG) + 3} failed, 1 passed" in wrong.output
    assert "warning" not in wrong.output


def test_a_class_that_says_that_nobody_answers_is_one_line_too(wrong: Result) -> None:
    assert f"tokenparity.yaml:{6 + len(WRONG)}: models.tiny.engines.unreachable: nobody is at home" in wrong.output


def test_an_engine_whose_ids_cannot_be_called_is_one_line(wrong: Result) -> None:
    assert "\nthe engine 'mute' raised TypeError: 'NoneType' object is not callable" in wrong.output


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (":Mine", "a class of your own is `module:Class`, found ':Mine'"),
        ("mypkg.engines:", "a class of your own is `module:Class`, found 'mypkg.engines:'"),
        ("mypkg engines:Mine", "a class of your own is `module:Class`, found 'mypkg engines:Mine'"),
        ("mypkg/engines.py:Mine", "a class of your own is `module:Class`, found 'mypkg/engines.py:Mine'"),
        ("a:b:c", "a class of your own is `module:Class`, found 'a:b:c'"),
    ],
)
def test_what_is_no_path_of_a_class_is_an_error_of_the_configuration(tmp_path: Path, type_: str, said: str) -> None:
    made = project(tmp_path, f"      mine: {{type: '{type_}'}}\n")
    with pytest.raises(ConfigError) as raised:
        load_config(made.folder / "tokenparity.yaml")
    assert str(raised.value).endswith(f"tokenparity.yaml:6: models.tiny.engines.mine.type: {said}")


def test_a_path_without_a_colon_is_told_what_is_built_in_and_what_a_class_looks_like(wrong: Result) -> None:
    place = f"tokenparity.yaml:{8 + len(WRONG)}: models.tiny.engines.dotted"
    assert f"{place}: no engine type 'mypkg.engines.Mine' (built in are" in wrong.output
    assert "an engine of your own is a class (`type: module:Class`)" in wrong.output
