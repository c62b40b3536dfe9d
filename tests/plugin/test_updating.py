"""Recording goldens: only when it is asked for, only what changed, and always what the reference renders."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, Project, Result, letters_config
from ..real_models import QWEN3

GOLDEN = "golden/tiny/chat/plain.json"
THEIRS = "system: You are terse.\nuser: What is 2 + 2?\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A first update of one case through two engines that agree and one that does not."""
    files = {
        "conftest.py": LETTERS_CONFTEST + '\nCHANGES["again"] = None\n',
        "tokenparity.yaml": letters_config("letters", "again", "shouting"),
        "chat.tokenparity.yaml": PLAIN,
    }
    return Project(tmp_path_factory.mktemp("recorded"), files).pytest("--tokenparity-update")


@pytest.fixture
def project(tmp_path: Path, recorded: Result) -> Project:
    """A project of its own, with its golden recorded."""
    shutil.copytree(recorded.folder, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, {})


def ids_of(project: Project, golden: str = GOLDEN) -> list[int]:
    """The IDs that a golden of one request holds."""
    (request,) = json.loads(project.read(golden))["requests"]
    return [token for ids, _ in request["append"] for token in ids]


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        assert isinstance(port, int)
        return port


# Without a flag


def test_a_missing_golden_fails_and_prints_a_command_that_records_it(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config("letters"),
            "api/chat.tokenparity.yaml": PLAIN,
            "elsewhere/notes.txt": "",
        },
    )
    missing = project.pytest("../api", start="elsewhere")
    assert missing.code == 1
    name = "../api/chat.tokenparity.yaml"
    assert "\nno golden yet: ../golden/tiny/api/chat/plain.json is not there\n" in missing.output
    text = f"""
  record  pytest --update-golden '{name}::plain[tiny-letters]'
  at      {name}:7: plain[tiny-letters]
"""
    assert text in missing.output
    command = next(line for line in missing.output.splitlines() if line.startswith("  record"))
    recorded = project.pytest(*shlex.split(command)[2:], start="elsewhere")
    assert recorded.passed(1), recorded.output
    assert "new      ../golden/tiny/api/chat/plain.json" in recorded.output
    assert project.files().keys() >= {"golden/tiny/api/chat/plain.json"}


def test_nothing_is_written_without_a_flag_whatever_fails(project: Project) -> None:
    project.write(
        "chat.tokenparity.yaml",
        PLAIN.replace("2 + 2", "2 + 3")
        + "  missing: {messages: question}\n"
        + "  stop: {messages: question, stop: [no token]}\n"
        + "  known: {messages: question, expect: {again: {differs: [unknown], reason: it does not}}}\n",
    )
    project.write("broken.tokenparity.yaml", "cases: {a: {message: []}}\n")
    project.write(
        "test_ids.py",
        "def test_missing(tokenparity):\n    tokenparity.assert_golden('ids', [1], model='tiny')\n\n\n"
        "def test_refused(tokenparity):\n    tokenparity.assert_golden('ids', ['a'], model='tiny')\n",
    )
    url = f"http://127.0.0.1:{closed_port()}"
    project.edit("tokenparity.yaml", "again: {}", f"again: {{}}\n      nobody: {{type: llama-server, url: '{url}'}}")
    before = project.files()
    result = project.pytest()
    assert result.code == 1
    assert "18 failed, 1 error" in result.output
    assert project.files() == before


def test_a_golden_that_is_no_golden_fails_and_stays_as_it_is(project: Project) -> None:
    broken = project.read(GOLDEN).replace('"tokens": 44', '"tokens": 43')
    project.write(GOLDEN, broken)
    result = project.pytest("-k", "letters")
    assert f"{GOLDEN}: damaged: request 1 says 43 tokens and holds 44" in result.output
    assert (result.code, project.read(GOLDEN)) == (1, broken)
    assert project.pytest("-k", "letters", "--tokenparity-update").passed(1)
    assert ids_of(project) == [*map(ord, THEIRS)]


# With a flag


def test_the_first_update_records_and_checks_every_engine_against_the_fresh_golden(recorded: Result) -> None:
    assert recorded.code == 1
    assert "shouting leaves the golden at token 0 (44 tokens recorded, 44 rendered)" in recorded.output
    assert "1 failed, 2 passed" in recorded.output
    section = """
checked  2 equal to the golden, 1 failed
goldens  1 new, 0 changed, 0 unchanged, 0 orphaned
new      golden/tiny/chat/plain.json
"""
    assert section in recorded.output


def test_a_second_update_writes_nothing_not_even_another_version_of_the_reference(project: Project) -> None:
    project.edit(GOLDEN, '"engine": "letters (conftest.Letters)"', '"engine": "letters 1.0"')
    before = project.files()
    path = project.folder / GOLDEN
    stat = path.stat()
    result = project.pytest("--tokenparity-update", "-k", "letters")
    assert result.passed(1), result.output
    assert "goldens  0 new, 0 changed, 1 unchanged, 0 orphaned" in result.output
    assert GOLDEN not in result.output
    assert project.files() == before
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (stat.st_mtime_ns, stat.st_ino)


def test_an_edited_case_is_recorded_again_with_its_own_ids(project: Project) -> None:
    project.edit("chat.tokenparity.yaml", "2 + 2", "2 + 30")
    result = project.pytest("--tokenparity-update", "-k", "letters")
    assert result.passed(1), result.output
    assert "goldens  0 new, 1 changed, 0 unchanged, 0 orphaned\nchanged  golden/tiny/chat/plain.json" in result.output
    assert ids_of(project) == [*map(ord, THEIRS.replace("2 + 2", "2 + 30"))]
    assert project.pytest("-k", "letters or again").passed(2)


def test_update_new_records_the_missing_and_leaves_the_changed_failing(project: Project) -> None:
    project.write("chat.tokenparity.yaml", PLAIN.replace("2 + 2", "2 + 3") + "  other: {messages: question}\n")
    before = project.read(GOLDEN)
    result = project.pytest("--tokenparity-update-new", "-k", "letters")
    assert result.code == 1
    assert "1 failed, 1 passed" in result.output
    assert "letters leaves the golden at token 41 (44 tokens recorded, 44 rendered)" in result.output
    assert "goldens  1 new, the others left as they were, 0 orphaned" in result.output
    assert "new      golden/tiny/chat/other.json" in result.output
    assert project.read(GOLDEN) == before
    assert ids_of(project, "golden/tiny/chat/other.json") == [*map(ord, THEIRS.replace("2 + 2", "2 + 3"))]


def test_a_finding_never_stops_recording(tmp_path: Path) -> None:
    cases = (
        PLAIN.replace("plain:", "stop:").replace("question}\n", "question, stop: [no token]}\n")
        + "  known: {messages: question, expect: {same: {differs: [unknown], reason: it does not}}}\n"
        + "  break: {session: [{role: user, content: a}, {role: user, content: b}], prefix: {breaks: [{at: 3, reason: no}]}}\n"
    )
    project = Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST.replace('"letters": None', '"letters": None, "same": None'),
            "tokenparity.yaml": letters_config("letters", "same"),
            "chat.tokenparity.yaml": cases,
        },
    )
    result = project.pytest("--tokenparity-update")
    assert result.code == 1
    assert "the stop string 'no token' is 2 tokens of the model, not one" in result.output
    assert "same no longer differs from the golden: remove the expectation" in result.output
    assert "no prefix break at token 3 any more" in result.output
    assert "goldens  3 new, 0 changed, 0 unchanged, 0 orphaned" in result.output
    assert {"break.json", "known.json", "stop.json"} == {path.name for path in tmp_path.glob("golden/tiny/chat/*")}


def test_the_reference_records_even_when_it_is_not_among_the_items(project: Project) -> None:
    project.edit("chat.tokenparity.yaml", "2 + 2", "2 + 30")
    result = project.pytest("--tokenparity-update", "-m", 'tokenparity(engine="shouting")')
    assert "1 failed, 2 deselected" in result.output
    assert "goldens  0 new, 1 changed, 0 unchanged, 0 orphaned" in result.output
    assert ids_of(project) == [*map(ord, THEIRS.replace("2 + 2", "2 + 30"))]


RAISING = """
def pytest_tokenparity_engine(config, model, name, options):
    class Raising:
        name = "raising"

        def ids(self, conversation, tools=None, **template_kwargs):
            raise KeyError("vocabulary")

    return Raising() if name == "raising" else None
"""
NO_REFERENCE = {
    "raises": (
        f"tokenizer: {QWEN3}, engines: {{raising: , raising-too: {{type: transformers}}}}",
        "the engine 'raising' raised KeyError: 'vocabulary' (conftest.py:7)",
    ),
    "unreachable": (
        f"tokenizer: {QWEN3}, engines: {{llama-server: {{url: 'http://127.0.0.1:PORT'}}}}",
        "nothing recorded: llama-server cannot be reached: nothing answers at http://127.0.0.1:PORT",
    ),
    "no-tokenizer": (
        "tokenizer: ./gone, engines: {transformers: }",
        "tokenparity.yaml:4: models.no-tokenizer.tokenizer: the folder ./gone is not there",
    ),
    "bad-template": (
        f"tokenizer: {QWEN3}, template: bad.jinja, engines: {{transformers: }}",
        "bad.jinja:2: Expected an expression, got 'end of statement block'\n",
    ),
    "no-template": (
        "tokenizer: ./bare, engines: {transformers: }",
        "tokenparity.yaml:6: models.no-template.tokenizer: the tokenizer has no chat template; give one with `template:`\n",
    ),
}
"""Models whose reference cannot render, each with what is said of it."""


def test_a_reference_that_cannot_render_records_nothing(tmp_path: Path) -> None:
    port = str(closed_port())
    models = "".join(f"  {name}: {{{model}}}\n" for name, (model, _) in NO_REFERENCE.items())
    settings = json.loads((QWEN3 / "tokenizer_config.json").read_text(encoding="utf-8"))
    del settings["chat_template"]
    project = Project(
        tmp_path,
        {
            "conftest.py": RAISING,
            "tokenparity.yaml": f"models:\n{models}".replace("PORT", port),
            "chat.tokenparity.yaml": PLAIN,
            "bad.jinja": "{{ messages }}\n{% if %}\n",
            "bare/tokenizer_config.json": json.dumps(settings),
            "bare/tokenizer.json": (QWEN3 / "tokenizer.json").read_bytes(),
        },
    )
    before = project.files()
    result = project.pytest("--tokenparity-update")
    assert result.code == 1
    assert "6 failed" in result.output
    for name, (_, message) in NO_REFERENCE.items():
        assert re.search(rf"_ plain\[{name}-[a-z-]+\] _+\n{re.escape(message.replace('PORT', port))}", result.output)
    assert "Traceback" not in result.output
    assert "goldens  0 new, 0 changed, 0 unchanged, 0 orphaned" in result.output
    assert project.files() == before


def test_an_update_that_met_no_case_file_says_so(project: Project) -> None:
    project.write("unit/test_unit.py", "def test_unit(): pass\n")
    result = project.pytest("--tokenparity-update", "unit")
    assert result.passed(1)
    assert "NOTHING RECORDED: the run met no case file (*.tokenparity.yaml) and no golden of a test" in result.output
    assert "goldens " not in result.output


def test_an_update_of_a_collection_alone_writes_nothing(project: Project) -> None:
    project.edit("chat.tokenparity.yaml", "2 + 2", "2 + 30")
    before = project.files()
    assert project.pytest("--tokenparity-update", "--collect-only").code == 0
    assert project.files() == before


# The guard


@pytest.mark.parametrize(
    "flag", ["--tokenparity-update", "--tokenparity-update-new", "--tokenparity-prune", "--update-golden"]
)
def test_a_run_that_writes_is_a_usage_error_where_ci_is_set(project: Project, flag: str) -> None:
    project.write("chat.tokenparity.yaml", PLAIN.replace("plain:", "other:"))
    before = project.files()
    result = project.pytest(flag, CI="false")
    assert result.code == 4
    assert f"ERROR: {flag} writes goldens, and the environment variable CI is set: " in result.output
    assert "add --tokenparity-force" in result.output
    assert project.files() == before


def test_ci_is_no_concern_of_a_run_that_only_checks(project: Project) -> None:
    assert project.pytest("-k", "letters", CI="true").passed(1)


def test_force_lets_an_update_start_where_ci_is_set(project: Project) -> None:
    project.write("unit/test_unit.py", "def test_unit(): pass\n")
    result = project.pytest("--tokenparity-update", "--tokenparity-force", "unit", CI="true")
    assert result.passed(1), result.output
    assert "NOTHING RECORDED" in result.output


def test_an_empty_ci_is_not_set(project: Project) -> None:
    project.write("chat.tokenparity.yaml", PLAIN.replace("plain:", "other:"))
    result = project.pytest("--tokenparity-prune", "--collect-only", CI="")
    assert "orphan   golden/tiny/chat/plain.json" in result.output
    assert result.code == 0


def test_two_conftests_each_give_their_own_engine_of_one_name(tmp_path: Path) -> None:
    conftest = """
class Mine:
    name = "mine"

    def ids(self, conversation, tools=None, **template_kwargs):
        return [NUMBER]


def pytest_tokenparity_engine(config, model, name, options):
    return Mine()
"""
    files = {"tokenparity.yaml": letters_config("mine")}
    for number, folder in enumerate("ab"):
        files[f"{folder}/conftest.py"] = conftest.replace("NUMBER", str(number))
        files[f"{folder}/chat.tokenparity.yaml"] = PLAIN
    project = Project(tmp_path, files)
    assert project.pytest("--tokenparity-update").passed(2)
    assert [ids_of(project, f"golden/tiny/{folder}/chat/plain.json") for folder in "ab"] == [[0], [1]]
    assert project.pytest("b", "a").passed(2)


def test_a_text_edited_alone_passes_with_a_warning_and_an_engine_that_differs_is_not_called_an_edit(
    tmp_path: Path,
) -> None:
    config = f"models:\n  qwen:\n    tokenizer: {QWEN3}\n    engines: {{transformers: , short: }}\n"
    files = {"conftest.py": LETTERS_CONFTEST, "tokenparity.yaml": config, "chat.tokenparity.yaml": PLAIN}
    project = Project(tmp_path, files)
    project.pytest("--tokenparity-update")
    project.edit("golden/qwen/chat/plain.json", '"You are terse.', '"You are chatty.')
    result = project.pytest()
    assert "1 failed, 1 passed, 1 warning" in result.output
    assert re.search(r"TokenParityWarning: golden/qwen/chat/plain\.json:\d+: the text says ", result.output)
    assert "edited by hand" not in result.output
    assert "the reference still renders the golden" in result.output


# What changed since


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Four models and two cases of Qwen3, recorded; then one thing of each model's golden is changed, and all checked."""
    settings = json.loads((QWEN3 / "tokenizer_config.json").read_text(encoding="utf-8"))
    engines = "engines: {transformers: }"
    project = Project(
        tmp_path_factory.mktemp("moved"),
        {
            "tokenparity.yaml": "models:\n"
            f"  edited: {{tokenizer: {QWEN3}, {engines}}}\n"
            f"  template: {{tokenizer: {QWEN3}, template: mine.jinja, {engines}}}\n"
            f"  tokenizer: {{tokenizer: ./mine, {engines}}}\n",
            "chat.tokenparity.yaml": PLAIN,
            "other.tokenparity.yaml": PLAIN.replace("plain: {", "case: {models: [edited], "),
            "mine.jinja": settings["chat_template"],
        },
    )
    mine = project.folder / "mine"
    shutil.copytree(QWEN3, mine)
    first = project.pytest("--tokenparity-update")
    assert first.passed(4), first.output
    project.edit("golden/edited/chat/plain.json", "[2610, ", "[2611, ")
    project.edit("other.tokenparity.yaml", "2 + 2", "2 + 3")
    project.edit("mine.jinja", "<|im_start|>assistant", "<|im_start|>model")
    tokenizer = json.loads((mine / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["You"], vocabulary["What"] = vocabulary["What"], vocabulary["You"]
    (mine / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    return project.pytest()


@pytest.mark.parametrize(
    ("item", "headline", "golden"),
    [
        pytest.param(
            "plain[edited-transformers]",
            "transformers leaves the golden at token 3 (25 tokens recorded, 25 rendered); the golden was edited by hand",
            "  edited  golden/edited/chat/plain.json:16: the IDs are 'ety are terse.<|im_end|>\\n'",
            id="golden-edited",
        ),
        pytest.param(
            "case[edited-transformers]",
            "transformers leaves the golden at token 18 (25 tokens recorded, 25 rendered); "
            "since it was recorded, the request was edited",
            "since then the request was edited",
            id="case-edited",
        ),
        pytest.param(
            "plain[template-transformers]",
            "transformers leaves the golden at token 23 (25 tokens recorded, 25 rendered); "
            "since it was recorded, the template changed\n",
            "since then the template changed (87a2728c -> 2185eee0)",
            id="template-changed",
        ),
        pytest.param(
            "plain[tokenizer-transformers]",
            "transformers leaves the golden at token 3 (25 tokens recorded, 25 rendered); "
            "since it was recorded, the tokenizer changed\n",
            "since then the tokenizer changed (aeb13307 -> ",
            id="tokenizer-changed",
        ),
    ],
)
def test_a_difference_says_which_thing_changed_since(moved: Result, item: str, headline: str, golden: str) -> None:
    assert moved.code == 1
    assert "4 failed" in moved.output
    lines = moved.output.splitlines()
    title = next(number for number, line in enumerate(lines) if line.strip("_ ") == item)
    end = next(number for number, line in enumerate(lines) if number > title and line.startswith(("__", "==")))
    section = "\n".join(lines[title + 1 : end])
    assert section.startswith(headline)
    assert golden in section
    things = {"edited by hand", "the request was edited", "the template changed", "the tokenizer changed"}
    assert sum(thing in section for thing in things) == 1
