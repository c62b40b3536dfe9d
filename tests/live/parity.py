"""The project's own suite through a running server, in one pytest run as a user makes it.

The case files are those of ``tests/parity`` and the goldens those of the repository, so nothing is recorded here. Only
what is said of other engines is left out of the cases: `engines`, and the differences that `expect` pins.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pytest_tokenparity.yaml12 import load

from ..engines.measured import Server
from ..harness import Project, Result
from ..real_models import ROOT, fetch
from ..recorded.shapes import KEY

MODELS = {"qwen3": "qwen3-0.6b", "gemma3": "gemma-3"}
EQUAL, REFUSED = "equal", "refused"
Outcomes = dict[str, str]
"""By case and engine, such as ``tools posted-string``: `equal`, `refused` by the engine alone, or the causes that are
proven, joined by `` + ``."""

_CASE_FILES = ("chat", "requests", "text")
_BLOCK = re.compile(r"^  cause   (?P<first>.*)\n(?P<more>(?:^ {10}.*\n)*)", re.MULTILINE)
_CAUSE = re.compile(r"^(?: {10})?([a-z-]+): ", re.MULTILINE)
_REFUSED = re.compile(r"\A.* refuses a request that the reference renders: ")
_PROVEN = re.compile(r"the reference renders exactly these [0-9]+ tokens")


@dataclass(frozen=True)
class Suite:
    """The suite of one model in a folder of its own, with the server's engines beside the reference."""

    project: Project
    server: Server
    engines: tuple[str, ...]

    @property
    def model(self) -> str:
        return MODELS[self.server.family]

    def items(self) -> list[str]:
        """Every item that must run: each case of the model through the reference and each engine."""
        return [
            f"{name} {engine}"
            for file in _CASE_FILES
            for name, case in _cases(file)["cases"].items()
            if self.model in case.get("models", [self.model])
            for engine in ("transformers", *self.engines)
        ]

    def pin(self, outcomes: Mapping[str, str]) -> None:
        """Write every difference down in the cases as a known one, by the causes that were proven."""
        for file in _CASE_FILES:
            document = json.loads(self.project.read(_path(file)))
            for name, case in document["cases"].items():
                for engine in self.engines:
                    said = outcomes.get(f"{name} {engine}", EQUAL)
                    if said != EQUAL:
                        causes = ["unknown"] if said == REFUSED else said.split(" + ")
                        pinned = {"differs": causes, "reason": "seen on the real server"}
                        case.setdefault("expect", {})[f"{self.model}/{engine}"] = pinned
            self.project.write(_path(file), json.dumps(document, ensure_ascii=False, indent=1))

    def run(self, *arguments: str) -> tuple[Result, Outcomes]:
        """One pytest run of the model's items, and what came of each."""
        marker = re.sub(r"\W+", "_", self.model)
        result = self.project.pytest("-m", marker, "--junitxml=report.xml", *arguments, SERVER_KEY=KEY, COLUMNS="120")
        report = ElementTree.parse(self.project.folder / "report.xml")
        return result, dict(_outcome(case) for case in report.iter("testcase"))


def suite_of(folder: Path, server: Server, engines: Mapping[str, Mapping[str, Any]]) -> Suite:
    """The suite with these engines; each gets the server's address, the name of its model and its key."""
    access = {"url": server.url, "model": server.family, "api_key_env": "SERVER_KEY"}
    made = {name: {**options, **access} for name, options in engines.items()}
    models = {
        model: {
            "tokenizer": str(fetch(family)),
            "engines": {"transformers": {}, **(made if family == server.family else {})},
        }
        for family, model in MODELS.items()
    }
    project = Project(folder, {"tokenparity.yaml": json.dumps({"golden_dir": "golden", "models": models})})
    for file in _CASE_FILES:
        project.write(_path(file), json.dumps(_cases(file), ensure_ascii=False, indent=1))
    shutil.copytree(ROOT / "golden", folder / "golden")
    shutil.copytree(ROOT / "tests" / "parity" / "recorded", folder / "tests" / "parity" / "recorded")
    return Suite(project, server, tuple(engines))


def assert_suite(
    folder: Path,
    server: Server,
    engines: Mapping[str, Mapping[str, Any]],
    different: Mapping[str, str],
    equal: int,
    *arguments: str,
) -> Result:
    """Every item is equal but those that are ``different``, and once these are pinned the suite passes.

    ``equal`` is how many are; a case that does not run is a difference, too. The ``arguments`` are those of the second
    run, which is given.
    """
    suite = suite_of(folder, server, engines)
    _, outcomes = suite.run()
    expected = {item: different.get(item, EQUAL) for item in suite.items()}
    assert outcomes == expected
    assert (list(outcomes.values()).count(EQUAL), set(different) - set(expected)) == (equal, set())
    suite.pin(outcomes)
    pinned, _ = suite.run(*arguments)
    assert f"checked  {equal} equal to the golden, {len(different)} known to differ\n" in pinned.output
    assert pinned.passed(equal + len(different)), pinned.output
    return pinned


def _path(file: str) -> str:
    return f"tests/parity/{file}.tokenparity.yaml"


def _cases(file: str) -> dict[str, Any]:
    """A case file of the repository without what it says of engines."""
    document: dict[str, Any] = load(ROOT / _path(file)).value
    cases = {
        name: {key: value for key, value in case.items() if key not in ("engines", "expect")}
        for name, case in document["cases"].items()
    }
    return {**document, "cases": cases}


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    """An item of a junit file, by case and engine, and what came of it."""
    about = {entry.attrib["name"]: entry.attrib["value"] for entry in case.iter("property")}
    name = f"{case.attrib['name'].partition('[')[0]} {about['engine']}"
    failure = case.find("failure")
    if failure is None:
        return name, about["tokenparity"]
    text = failure.text or ""
    if _REFUSED.search(text) and not _BLOCK.search(text):
        return name, REFUSED
    blocks = list(_BLOCK.finditer(text))
    if not blocks or not all(_PROVEN.search(block.group()) for block in blocks):
        return name, text  # shown by the test that expected something else
    causes = [cause for block in blocks for cause in _CAUSE.findall(f"{block['first']}\n{block['more']}")]
    return name, " + ".join(dict.fromkeys(cause for cause in causes if cause != "together"))
