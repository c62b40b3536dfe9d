"""Goldens that cannot be read, belong to somebody else, or are older than the tokenizer: said, and nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..harness import LETTERS_CONFTEST, PLAIN, QUESTION, Project, letters_config
from ..real_models import QWEN3
from .test_bad_input import shows_a_traceback

GOLDEN = "golden/tiny/chat/plain.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """One case with its golden, and the engines `letters` and `short`."""
    project = Project(
        tmp_path,
        {
            "conftest.py": LETTERS_CONFTEST,
            "tokenparity.yaml": letters_config("letters", "short"),
            "chat.tokenparity.yaml": PLAIN,
        },
    )
    assert project.pytest("--update-golden", "-k", "letters").passed(1)
    return project


def test_a_name_that_no_disk_takes_is_a_sentence_when_what_is_missing_is_recorded(project: Project) -> None:
    project.write("chat.tokenparity.yaml", f"{QUESTION}cases:\n  {'x' * 300}: {{messages: question}}\n")
    result = project.pytest("--tokenparity-update-new", "-k", "letters")
    assert not shows_a_traceback(result)
    assert "cannot be read: File name too long" in result.output


def test_a_golden_that_names_no_file_is_replaced(project: Project) -> None:
    project.edit(GOLDEN, '"chat.tokenparity.yaml"', json.dumps("x" * 5000))
    result = project.pytest("--update-golden", "-k", "letters")
    assert result.passed(1), result.output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('  "model": "tiny",', '  "model": "tiny",\n  "model": "tiny",', ":4: the key 'model' stands twice: keep one"),
        ('    "tokenizers"', '    "engine": "x",\n    "tokenizers"', ":8: the key 'engine' stands twice: keep one"),
        ('"format": 1,', '"format": 1.0,', ": format 1.0; this version reads format 1"),
        ('"format": 1,', '"format": true,', ": format True; this version reads format 1"),
    ],
)
def test_a_damaged_golden_is_refused_with_its_line(project: Project, old: str, new: str, said: str) -> None:
    project.edit(GOLDEN, old, new)
    result = project.pytest("-k", "letters")
    assert result.code == 1
    assert f"{GOLDEN}{said}" in result.output


def test_an_update_writes_through_a_link(project: Project) -> None:
    link = project.folder / GOLDEN
    target = project.folder / "elsewhere" / "plain.json"
    target.parent.mkdir()
    link.rename(target)
    link.symlink_to(target)
    before = target.read_bytes()
    project.edit("chat.tokenparity.yaml", "terse", "brief")
    assert project.pytest("--update-golden", "-k", "letters").passed(1)
    assert link.is_symlink()
    assert target.read_bytes() != before
    assert [path.name for path in target.parent.iterdir()] == ["plain.json"]


def test_words_of_a_golden_do_not_reach_the_terminal_raw(project: Project) -> None:
    project.edit(GOLDEN, '"engine": "', '"engine": "\\u001b[31mred\\n')
    result = project.pytest("-k", "short")
    assert r"recorded by \x1b[31mred letters" in result.output


def test_an_edited_text_comes_with_the_command_that_records_it(tmp_path: Path) -> None:
    config = f"models:\n  m:\n    tokenizer: {QWEN3}\n    engines: {{transformers: }}\n"
    project = Project(tmp_path, {"tokenparity.yaml": config, "chat.tokenparity.yaml": PLAIN})
    project.pytest("--update-golden")
    project.edit("golden/m/chat/plain.json", "You are terse.", "You are verse.")
    said = project.pytest().output
    command = "pytest --tokenparity-update 'chat.tokenparity.yaml::plain[m-transformers]'"
    assert f"record it again: {command}" in said
    assert project.pytest("--tokenparity-update", "chat.tokenparity.yaml::plain[m-transformers]").passed(1)
    assert "warning" not in project.pytest().output


def test_what_another_configuration_declares_is_not_deleted(tmp_path: Path) -> None:
    project = Project(tmp_path, {"pytest.ini": ""})
    for name in ("one", "two"):
        project.write(f"{name}/conftest.py", LETTERS_CONFTEST)
        project.write(f"{name}/tokenparity.yaml", f"golden_dir: ../golden\n{letters_config()}")
        project.write(f"{name}/{name}.tokenparity.yaml", PLAIN)
        assert project.pytest("--update-golden", start=name).passed(1)
    result = project.pytest("--tokenparity-prune", start="one")
    assert "no golden is an orphan" in result.output
    (tmp_path / "two" / "two.tokenparity.yaml").unlink()
    result = project.pytest("--tokenparity-prune", start="one")
    assert "deleted  ../golden/tiny/two/plain.json" in result.output
    assert [path for path in project.files() if path.endswith(".json")] == ["golden/tiny/one/plain.json"]


OWN = "def test_a(tokenparity):\n    tokenparity.assert_golden('greeting', [1, 2], model='tiny')\n"


def test_a_golden_of_another_test_is_not_overwritten(project: Project) -> None:
    project.write("test_own.py", OWN + OWN.replace("test_a", "test_b").replace("2]", "3]"))
    assert project.pytest("--update-golden", "test_own.py::test_a").passed(1)
    before = project.files()
    said = "golden 'greeting' belongs to test_own.py::test_a: use another name, or delete the file"
    for arguments in (("test_own.py",), ("--update-golden", "test_own.py"), ("--update-golden", "test_own.py::test_b")):
        result = project.pytest(*arguments)
        assert said in result.output
        assert "record  " not in result.output
        assert project.files() == before


def test_rows_of_one_test_do_not_overwrite_each_other_either(project: Project) -> None:
    rows = "import pytest\n\n\n@pytest.mark.parametrize('last', [2, 3])\n"
    project.write("test_own.py", rows + OWN.replace("(tokenparity)", "(tokenparity, last)").replace("2]", "last]"))
    result = project.pytest("--update-golden", "test_own.py")
    assert "1 failed, 1 passed" in result.output
    assert "golden 'greeting' belongs to test_own.py::test_a[2]: use another name" in result.output


def test_a_test_that_was_renamed_keeps_its_golden(project: Project) -> None:
    project.write("test_own.py", OWN)
    assert project.pytest("--update-golden", "test_own.py").passed(1)
    project.write("test_own.py", OWN.replace("test_a", "test_renamed").replace("2]", "3]"))
    assert project.pytest("--update-golden", "test_own.py").passed(1)
    assert project.pytest("test_own.py").passed(1)


TEMPLATES = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "{{ messages[0].content }}")
CHANGED = "since it was recorded, the template changed"


def with_templates(tmp_path: Path, engine: str) -> Project:
    """A model whose template can be changed, with an engine beside the reference that renders as `engine` says."""
    conftest = """
import pytest_tokenparity as tp

class Beside(tp.Engine):
    name = "beside"

    def render(self, request):
        return tp.Rendering(ids=IDS)

def pytest_tokenparity_engine(config, model, name, options):
    return Beside() if name == "beside" else None
""".replace("IDS", engine)
    config = (
        f"models:\n  m:\n    tokenizer: {QWEN3}\n    template: own.jinja\n    engines: {{transformers: , beside: }}\n"
    )
    project = Project(
        tmp_path,
        {
            "conftest.py": conftest,
            "tokenparity.yaml": config,
            "chat.tokenparity.yaml": PLAIN,
            "own.jinja": TEMPLATES[0],
        },
    )
    project.pytest("--update-golden", "-k", "transformers")
    project.write("own.jinja", TEMPLATES[1])
    return project


def test_an_engines_own_difference_is_not_laid_on_what_changed_in_the_reference(tmp_path: Path) -> None:
    result = with_templates(tmp_path, "[1, 2, 3]").pytest()
    reference, beside = (
        next(line for line in result.output.splitlines() if line.startswith(f"{name} leaves the golden"))
        for name in ("transformers", "beside")
    )
    assert CHANGED in reference
    assert CHANGED not in beside
    assert "since then the template changed" in result.output
    assert "expect: {beside: {differs: [" in result.output


def test_a_tokenizer_that_changed_may_also_be_restored(project: Project) -> None:
    project.edit(GOLDEN, '"tokenizer_sha256": "', '"tokenizer_sha256": "0')
    project.edit(GOLDEN, "[115, ", "[116, ")
    result = project.pytest("-k", "letters")
    assert "or restore the tokenizer: tokenparity.yaml:3" in result.output
