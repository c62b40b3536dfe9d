"""The fixture `tokenparity` in a test function: goldens for IDs of one's own, and the configured engines."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, Project, Result, letters_config, qwen_config

TESTS = """
class Tensor:
    def __init__(self, ids):
        self.ids = ids

    def tolist(self):
        return self.ids


def test_list(tokenparity):
    tokenparity.assert_golden("list", [2610, 525, 13, 198, 3838], model="tiny")


def test_tensor(tokenparity):
    tokenparity.assert_golden("tensor", Tensor([1, 2]), model="tiny")


class TestGroup:
    def test_two(self, tokenparity):
        tokenparity.assert_golden("first", iter([]), model="tiny")
        tokenparity.assert_golden("second", (3,), model="tiny")
"""
NAMES = ["list", "tensor", "first", "second"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Three tests' goldens, recorded."""
    files = {
        "conftest.py": LETTERS_CONFTEST,
        "tokenparity.yaml": letters_config("letters", "short"),
        "unit/test_prompts.py": TESTS,
    }
    return Project(tmp_path_factory.mktemp("recorded"), files).pytest("--tokenparity-update")


@pytest.fixture
def project(tmp_path: Path, recorded: Result) -> Project:
    shutil.copytree(recorded.folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, {})


def run_test(project: Project, body: str, *arguments: str) -> Result:
    """Run one test with that body."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    project.write("unit/test_one.py", f"def test_one(tokenparity):\n{lines}")
    return project.pytest("unit/test_one.py", *arguments)


def test_ids_are_recorded_under_the_model_and_the_test_file(recorded: Result) -> None:
    assert recorded.passed(3), recorded.output
    assert "checked  3 equal to the golden\ngoldens  4 new, 0 changed, 0 unchanged, 0 orphaned\n" in recorded.output
    project = Project(recorded.folder, {})
    goldens = {name for name in project.files() if name.startswith("golden/")}
    assert goldens == {f"golden/tiny/unit/test_prompts/{name}.json" for name in NAMES}
    golden = json.loads(project.read("golden/tiny/unit/test_prompts/list.json"))
    assert (golden["model"], golden["case"], golden["file"]) == ("tiny", "list", "unit/test_prompts.py")
    assert golden["recorded"]["engine"] == "unit/test_prompts.py::test_list"
    assert golden["recorded"]["request_sha256"] is None
    assert golden["requests"] == [
        {
            "messages": None,
            "tokens": 5,
            "keep": 0,
            "append": [[[2610, 525, 13, 198], "You are.\n"], [[3838], "What"]],
        }
    ]


def test_recorded_ids_pass_and_write_nothing(project: Project) -> None:
    before = project.files()
    result = project.pytest()
    assert result.passed(3), result.output
    assert "checked  3 equal to the golden\n" in result.output
    assert project.files() == before


def test_other_ids_fail_with_the_token_the_line_and_the_command(project: Project) -> None:
    project.edit("unit/test_prompts.py", "[2610, 525, 13,", "[2610, 525, 0,")
    project.edit("unit/test_prompts.py", "(3,)", "(3, 4)")
    before = project.files()
    result = project.pytest()
    assert "2 failed, 1 passed" in result.output
    text = """
the test leaves the golden at token 2 (5 tokens recorded, 5 rendered)

            0       1        2     3      4
  golden    'You'   ' are'   '.'   '\\n'   'What'
  rendered  'You'   ' are'   '!'   '\\n'   'What'
                             13 != 0

  golden  recorded by unit/test_prompts.py::test_list, tokenizers VERSION; tokenizer is unchanged since
  record  pytest --update-golden unit/test_prompts.py::test_list  (if the new prompt is right)
  more    pytest -vv unit/test_prompts.py::test_list
  at      unit/test_prompts.py:11: test_list, golden 'list'
"""
    from tokenizers import __version__

    assert text.replace("VERSION", __version__) in result.output
    assert "the test leaves the golden at token 1 (1 token recorded, 2 rendered)" in result.output
    assert "pytest --update-golden unit/test_prompts.py::TestGroup::test_two" in result.output
    assert "Traceback" not in result.output
    assert "checked  1 equal to the golden, 2 failed\n" in result.output
    assert project.files() == before


def test_a_missing_golden_fails_with_the_command_and_writes_nothing(project: Project) -> None:
    body = "tokenparity.assert_golden('new', [1], model='tiny')"
    result = run_test(project, body)
    assert result.code == 1
    assert "\nno golden yet: golden/tiny/unit/test_one/new.json is not there\n" in result.output
    text = """
  record  pytest --update-golden unit/test_one.py::test_one
  at      unit/test_one.py:2: test_one, golden 'new'
"""
    assert text in result.output
    assert not (project.folder / "golden/tiny/unit/test_one").exists()


def test_parametrized_tests_print_a_command_that_a_shell_takes(project: Project) -> None:
    project.write(
        "unit/test_one.py",
        "import pytest\n\n\n@pytest.mark.parametrize('word', ['it is'])\ndef test_one(tokenparity, word):\n"
        "    tokenparity.assert_golden('new', [1], model='tiny')\n",
    )
    result = project.pytest("unit/test_one.py")
    assert "  record  pytest --update-golden 'unit/test_one.py::test_one[it is]'\n" in result.output


USELESS = {
    "assert_golden('list', [1, 2.0], model='tiny')": "the test must give integers, it gave float 2.0 at token 1",
    "assert_golden('list', [1, True], model='tiny')": "the test must give integers, it gave bool True at token 1",
    "assert_golden('list', [1, -1], model='tiny')": "the test gave a negative token ID, -1, at token 1",
    "assert_golden('list', '12', model='tiny')": "the test must give a list of token IDs, it gave str: '12'",
    "assert_golden('list', None, model='tiny')": "the test must give a list of token IDs, it gave NoneType: None",
    "assert_golden('list', [[1, 2]], model='tiny')": "the test must give integers, it gave list [1, 2] at token 0",
    "assert_golden('list', [1], model='tinny')": "tokenparity.yaml has no model 'tinny' (did you mean 'tiny'?)",
    "assert_golden('list', [1], model='qwen')": "tokenparity.yaml has no model 'qwen' (it has tiny)",
    "assert_golden('../list', [1], model='tiny')": (
        "the golden's name '../list': use letters, digits and . _ + -, starting with a letter or digit"
    ),
    "assert_golden('nul', [1], model='tiny')": "the golden's name 'nul' is a device name on Windows",
    "engine('tinny', 'letters')": "tokenparity.yaml has no model 'tinny' (did you mean 'tiny'?)",
    "assert_golden('list', [1], model=None)": "the model must be a string, it is NoneType None",
    "assert_golden('list', [1], model=['tiny'])": "the model must be a string, it is list ['tiny']",
    "assert_golden(None, [1], model='tiny')": "the golden's name must be a string, it is NoneType None",
    "assert_golden(7, [1], model='tiny')": "the golden's name must be a string, it is int 7",
    "engine(None, 'letters')": "the model must be a string, it is NoneType None",
    "engine('tiny', None)": "the engine must be a string, it is NoneType None",
    "engine('tiny', ['letters'])": "the engine must be a string, it is list ['letters']",
    "engine('tiny', 'letters').ids('Hi')": "the conversation must be a list of messages, it is str 'Hi'",
    "engine('tiny', 'letters').ids(None)": "the conversation must be a list of messages, it is NoneType None",
    "engine('tiny', 'letters').ids(['Hi'])": "the conversation must be a list of messages, it is list ['Hi']",
    "engine('tiny', 'letters').ids([], 'tool')": "`tools` must be a list of tool schemas, it is str 'tool'",
    "engine('tiny', 'leters')": "model 'tiny' has no engine 'leters' (did you mean 'letters'?)",
}
"""Calls of the fixture that cannot be, and what is said of each."""


@pytest.fixture(scope="module")
def useless(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A test for each useless call, run where goldens may be recorded."""
    tests = "\n".join(
        f"def test_{number}(tokenparity):\n    tokenparity.{call}\n\n" for number, call in enumerate(USELESS, 100)
    )
    files = {"conftest.py": LETTERS_CONFTEST, "tokenparity.yaml": letters_config(), "test_useless.py": tests}
    project = Project(tmp_path_factory.mktemp("useless"), files)
    before = project.files()
    result = project.pytest("--tokenparity-update", "-rN")
    assert f"{len(USELESS)} failed in" in result.output
    assert project.files() == before
    return result


@pytest.mark.parametrize(("number", "message"), [*enumerate(USELESS.values(), 100)], ids=USELESS)
def test_a_useless_call_fails_in_one_line_with_its_place_and_writes_nothing(
    useless: Result, number: int, message: str
) -> None:
    section = useless.output.partition(f" test_{number} ")[2].lstrip("_").partition("\n__")[0].partition("\n==")[0]
    line = 2 + 4 * (number - 100)
    assert section == f"\n{message}\n\n  at      test_useless.py:{line}: test_{number}"


def test_a_failure_stands_at_the_call_in_the_test_file(project: Project) -> None:
    """Not where the test begins, and not in a helper of another file."""
    project.write(
        "unit/helper.py", "def check(tokenparity):\n    tokenparity.assert_golden('new', [1], model='tiny')\n"
    )
    project.write(
        "unit/test_one.py",
        "from helper import check\n\n\ndef ours(tokenparity):\n    tokenparity.engine('tiny', 'leters')\n\n\n"
        "def test_here(tokenparity):\n    ours(tokenparity)\n\n\n"
        "def test_there(tokenparity):\n    assert 1 + 1 == 2\n    check(\n        tokenparity,\n    )\n",
    )
    result = project.pytest("unit/test_one.py")
    assert "  at      unit/test_one.py:5: test_here\n" in result.output
    assert "  at      unit/test_one.py:14: test_there, golden 'new'\n" in result.output
    lines = project.pytest("unit/test_one.py", "--tb=line").output
    assert "\nunit/test_one.py:5: model 'tiny' has no engine 'leters'" in lines
    assert "\nunit/test_one.py:14: no golden yet: " in lines


def test_an_update_that_met_a_useless_call_does_not_say_that_it_met_no_test(useless: Result) -> None:
    assert "NOTHING RECORDED: the run met no case file" not in useless.output


def test_two_tests_of_one_name_do_not_hide_each_other(project: Project) -> None:
    """The second is compared with what the first recorded, also in the run that records."""
    body = "tokenparity.assert_golden('new', [1], model='tiny')\ntokenparity.assert_golden('new', [2], model='tiny')\n"
    result = run_test(project, body, "--tokenparity-update")
    assert result.code == 1
    assert "the test leaves the golden at token 0 (1 token recorded, 1 rendered)" in result.output


def test_update_new_records_only_the_missing(project: Project) -> None:
    project.edit("unit/test_prompts.py", "(3,)", "(4,)")
    (project.folder / "golden/tiny/unit/test_prompts/tensor.json").unlink()
    before = project.files()
    result = project.pytest("--tokenparity-update-new")
    assert "1 failed, 2 passed" in result.output
    assert "new      golden/tiny/unit/test_prompts/tensor.json" in result.output
    assert "goldens  1 new, the others left as they were" in result.output
    after = project.files()
    del after["golden/tiny/unit/test_prompts/tensor.json"]
    assert after == before


def test_without_a_configuration_the_fixture_says_what_is_missing(tmp_path: Path) -> None:
    project = Project(tmp_path, {"unit/x.txt": ""})
    result = run_test(project, "tokenparity.assert_golden('new', [1], model='tiny')")
    assert result.code == 1
    assert "no tokenparity.yaml at or above " in result.output
    assert "Traceback" not in result.output


QUESTION = "[{'role': 'user', 'content': 'Hi'}]"


def test_a_configured_engine_gives_ids(project: Project) -> None:
    body = f"""
letters = tokenparity.engine("tiny", "letters")
assert letters.name == "letters"
assert letters.ids({QUESTION}) == [ord(letter) for letter in "user: Hi\\n"]
assert tokenparity.engine("tiny", "short").ids({QUESTION}, tools=None) == letters.ids({QUESTION})[:-1]
"""
    result = run_test(project, body)
    assert result.passed(1), result.output


def test_a_real_server_and_transformers_give_the_same_ids_to_a_test(tmp_path: Path, qwen_url: str) -> None:
    project = Project(tmp_path, {"tokenparity.yaml": qwen_config(qwen_url)})
    body = f"""
names = ["transformers", "llama-server", "posted-string"]
first, *others = [
    tokenparity.engine("qwen3-0.6b", name).ids({QUESTION}, enable_thinking=False) for name in names
]
assert first[:3] == [151644, 872, 198]
assert others == [first, first]
"""
    result = run_test(project, body)
    assert result.passed(1), result.output


def test_an_engine_that_cannot_be_reached_fails_or_skips_the_test(project: Project) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    project.edit("tokenparity.yaml", "short: {}", f"nobody: {{type: llama-server, url: '{url}'}}")
    body = f"tokenparity.engine('tiny', 'nobody').ids({QUESTION})"
    failed = run_test(project, body)
    reason = f"nobody cannot be reached: nothing answers at {url}"
    assert "1 failed" in failed.output
    assert f" test_one {'_' * 35}\n{reason}: Connection refused\n\n" in failed.output
    assert "\n  at      unit/test_one.py:2: test_one\n" in failed.output
    assert "[Errno " not in failed.output
    assert failed.output.count(reason) == 2  # in the failure, and in the summary
    skipped = run_test(project, body, "--tokenparity-unreachable=skip", "-rs")
    assert "1 skipped" in skipped.output
    assert "NOTHING WAS CHECKED: 1 not checked" in skipped.output
    assert reason in skipped.output


def test_a_test_that_fails_by_itself_after_a_golden_keeps_pytests_own_words(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "tokenparity.yaml": letters_config(),
            "conftest.py": LETTERS_CONFTEST,
            "test_own.py": (
                "import pytest\n\n\ndef test_own(tokenparity):\n"
                "    tokenparity.assert_golden('ids', [1, 2], model='tiny')\n    pytest.fail('boom')\n"
            ),
        },
    )
    result = project.pytest("--update-golden")
    assert "FAILED test_own.py::test_own - Failed: boom" in result.output
    assert "test_own.py:6: Failed" in result.output
