"""The hook `pytest_tokenparity_engine`: an engine from a conftest or plugin, and what goes wrong in other people's code."""

from __future__ import annotations

import json
from pathlib import Path

from ..harness import PLAIN, Project

TEXT = "system: You are terse.\nuser: What is 2 + 2?\n"
GOLDEN = """{"format": 1, "model": "tiny", "case": "plain", "file": "chat.tokenparity.yaml",
 "recorded": {"engine": "letters"}, "requests": [{"messages": 2, "tokens": 44, "keep": 0, "append": [[IDS, "text"]]}]}
""".replace("IDS", str([ord(letter) for letter in TEXT]))
"""A golden by hand, so that no tokenizer is loaded: a token for each letter."""

CONFTEST = '''
import json


class Letters:
    """A token for each letter."""

    def __init__(self, name, ids=None):
        self.name = name
        self.own = ids

    def ids(self, conversation, tools=None, **template_kwargs):
        if self.own is not None:
            return self.own()
        return [ord(letter) for message in conversation for letter in f"{message['role']}: {message['content']}\\n"]


def raises():
    raise LookupError("no vocabulary\\nat all")


ANSWERS = {
    "floats": lambda: [1, 2.5],
    "nothing": lambda: None,
    "text": lambda: "abc",
    "negative": lambda: [-1],
    "batch": lambda: [[1, 2]],
    "raising": raises,
}


def pytest_tokenparity_engine(config, model, name, options):
    with (config.rootpath / "calls.jsonl").open("a") as log:
        print(json.dumps([model, name, options]), file=log)
    if name in ANSWERS:
        return Letters(name, ANSWERS[name])
    if name == "raising-hook":
        raise ValueError("no such engine\\nhere")
    if name == "no-engine":
        return object()
    if name in ("letters", "again") or options.get("mine"):
        return Letters(name)
'''


def project_with(tmp_path: Path, engines: str, **files: str) -> Project:
    """A project of one case with a golden, and these engines after the reference."""
    config = f"models:\n  tiny:\n    tokenizer: ./none\n    engines:\n      letters: {{}}\n{engines}"
    return Project(
        tmp_path,
        {
            "conftest.py": CONFTEST,
            "tokenparity.yaml": config,
            "chat.tokenparity.yaml": PLAIN,
            "golden/tiny/chat/plain.json": GOLDEN,
            **{name.replace("__", "."): text for name, text in files.items()},
        },
    )


def test_the_hook_is_called_once_for_each_engine_with_its_options_expanded(tmp_path: Path) -> None:
    engines = """\
      again:
        type: transformers
      mine:
        mine: true
        url: "${MY_URL}/v1"
        key: "${MY_KEY:-none}"
        depth: {list: ["${MY_URL}", 1, 1e-7], empty: }
"""
    project = project_with(tmp_path, engines)
    project.write("chat.tokenparity.yaml", PLAIN + "  more: {messages: question}\n")
    project.write("golden/tiny/chat/more.json", GOLDEN.replace('"plain"', '"more"'))
    result = project.pytest(MY_URL="http://host")
    assert result.passed(6), result.output
    calls = [json.loads(line) for line in project.read("calls.jsonl").splitlines()]
    assert calls == [
        ["tiny", "letters", {}],
        ["tiny", "again", {}],
        [
            "tiny",
            "mine",
            {
                "mine": True,
                "url": "http://host/v1",
                "key": "none",
                "depth": {"list": ["http://host", 1, 1e-7], "empty": None},
            },
        ],
    ]


def test_an_engine_that_is_not_used_is_not_made_and_its_variables_are_not_asked_for(tmp_path: Path) -> None:
    project = project_with(tmp_path, '      mine: {mine: true, url: "${MY_URL}"}\n')
    assert project.pytest("-k", "letters").passed(1)
    assert project.read("calls.jsonl") == '["tiny", "letters", {}]\n'
    result = project.pytest("-k", "mine")
    assert result.code == 1
    message = (
        "tokenparity.yaml:6: models.tiny.engines.mine: the environment variable MY_URL is not set; set it, or give a "
        "default: ${MY_URL:-...}"
    )
    assert f"\n{message}\n" in result.output
    assert "Traceback" not in result.output


def test_the_first_result_wins_and_the_packages_own_engines_come_last(tmp_path: Path) -> None:
    plugin = """
class Same:
    name = "same"

    def ids(self, conversation, tools=None, **template_kwargs):
        return [1]


def pytest_tokenparity_engine(model, name):
    return Same() if name == "transformers" else None
"""
    project = project_with(tmp_path, "      transformers: {}\n      again: {}\n", first__py=plugin)
    result = project.pytest("-p", "first", "-k", "transformers or again", PYTHONPATH=".")
    assert "1 failed, 1 passed" in result.output
    assert "transformers leaves the golden at token 0 (44 tokens recorded, 1 rendered)" in result.output
    assert "engine   transformers (first.Same)\n" in result.output
    names = [json.loads(line)[1] for line in project.read("calls.jsonl").splitlines()]
    assert {"transformers", "again"} <= {*names}


FAULTS = {
    "floats": "the engine 'floats' must give integers, it gave float 2.5 at token 1",
    "nothing": "the engine 'nothing' must give a list of token IDs, it gave NoneType: None",
    "text": "the engine 'text' must give a list of token IDs, it gave str: 'abc'",
    "negative": "the engine 'negative' gave a negative token ID, -1, at token 0",
    "batch": "the engine 'batch' must give integers, it gave list [1, 2] at token 0",
    "raising": "the engine 'raising' raised LookupError: no vocabulary at all (conftest.py:19)",
    "raising-hook": "PLACE: the hook pytest_tokenparity_engine raised ValueError: no such engine here (conftest.py:38)",
    "no-engine": "PLACE: the hook pytest_tokenparity_engine gave object, which has no `name` and `ids`",
    "lama-server": (
        "PLACE: no engine type 'lama-server' (did you mean 'llama-server'?); an engine of your own is a class "
        "(`type: module:Class`), or comes from the hook pytest_tokenparity_engine in a conftest.py"
    ),
}


def test_every_fault_of_an_engine_is_one_line(tmp_path: Path) -> None:
    project = project_with(tmp_path, "".join(f"      {name}: {{}}\n" for name in FAULTS))
    result = project.pytest("--tokenparity-unreachable=skip")
    assert result.code == 1
    assert f"{len(FAULTS)} failed, 1 passed" in result.output
    for number, (name, message) in enumerate(FAULTS.items(), 6):
        said = message.replace("PLACE", f"tokenparity.yaml:{number}: models.tiny.engines.{name}")
        item = f"plain[tiny-{name}]"
        text = result.output.partition(f" {item} ")[2].lstrip("_\n").replace("\n\n", "\n")
        assert text.startswith(f"{said}\n  at      chat.tokenparity.yaml:7: {item}\n")
    assert "Traceback" not in result.output
    assert "INTERNALERROR" not in result.output


def test_a_hook_that_takes_unknown_arguments_is_pytests_own_error(tmp_path: Path) -> None:
    project = project_with(tmp_path, "", conftest__py="def pytest_tokenparity_engine(nmae): pass\n")
    result = project.pytest()
    assert result.code != 0
    assert "pytest_tokenparity_engine" in result.output
    assert "nmae" in result.output


RUDE = """
class Rude:
    name = "rude"

    def ids(self, conversation, tools=None, **template_kwargs):
        text = "".join(f"{message['role']}: {message.pop('content')}\\n" for message in conversation)
        conversation.clear()
        return [ord(letter) for letter in text]


def pytest_tokenparity_engine(config, model, name, options):
    return Rude() if name == "rude" else None
"""


def test_an_engine_that_changes_what_it_is_given_changes_nothing_for_the_next(tmp_path: Path) -> None:
    project = project_with(tmp_path, "      rude: {}\n      again: {}\n", rude__py=RUDE)
    project.write("chat.tokenparity.yaml", PLAIN + "  twin: {messages: question}\n")
    project.write("golden/tiny/chat/twin.json", GOLDEN.replace('"plain"', '"twin"'))
    result = project.pytest("-p", "rude", PYTHONPATH=".")
    assert result.passed(6), result.output


REFUSING = """
from pytest_tokenparity import RequestRefused


class Refusing:
    name = "refusing"

    def ids(self, conversation, tools=None, **template_kwargs):
        raise RequestRefused("roles must alternate")


def pytest_tokenparity_engine(config, model, name, options):
    return Refusing() if name == "refusing" else None
"""


def test_an_engine_of_ones_own_may_refuse(tmp_path: Path) -> None:
    project = project_with(tmp_path, "      refusing: {}\n", refuses__py=REFUSING)
    result = project.pytest("-p", "refuses", "-k", "refusing", PYTHONPATH=".")
    assert result.code == 1
    assert "refusing refuses a request that the reference renders: roles must alternate" in result.output
    refused = '{"messages": 2, "refused": "another sentence"}'
    start = GOLDEN.index('{"messages"')
    project.write("golden/tiny/chat/plain.json", GOLDEN[:start] + refused + "]}\n")
    assert project.pytest("-p", "refuses", "-k", "refusing", PYTHONPATH=".").passed(1)


def test_the_switches_of_a_request_reach_the_engine_only_where_they_are_not_the_default(tmp_path: Path) -> None:
    conftest = CONFTEST.replace(
        "        if self.own",
        '        with open("asked.jsonl", "a") as log:\n'
        "            print(json.dumps([tools, template_kwargs]), file=log)\n"
        "        if self.own",
    )
    cases = (
        PLAIN
        + "  raw: {messages: question, add_generation_prompt: false}\n"
        + "  continued: {messages: question, continue_final_message: true}\n"
        + "  switched: {messages: question, template_kwargs: {enable_thinking: false}, "
        + "tools: [{type: function, function: {name: f}}]}\n"
    )
    project = project_with(tmp_path, "", conftest__py=conftest)
    project.write("chat.tokenparity.yaml", cases)
    for name in ("raw", "continued", "switched"):
        project.write(f"golden/tiny/chat/{name}.json", GOLDEN.replace('"plain"', f'"{name}"'))
    assert project.pytest().passed(4)
    assert [json.loads(line) for line in project.read("asked.jsonl").splitlines()] == [
        [None, {}],
        [None, {"add_generation_prompt": False}],
        [None, {"add_generation_prompt": False, "continue_final_message": True}],
        [[{"type": "function", "function": {"name": "f"}}], {"enable_thinking": False}],
    ]
