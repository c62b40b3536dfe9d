"""One pytest run: what is configured, what may be written, and what is told at its end. Knows pytest's Config alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .errors import ConfigError

if TYPE_CHECKING:
    from .check import Checker
    from .config import Config
    from .engines.base import Engine

CONFIG_NAME = "tokenparity.yaml"
SESSION = pytest.StashKey["ParitySession"]()
ALIAS = "--update-golden"
ALIAS_IS_OURS = pytest.StashKey[bool]()

OUTCOME_KEY = "tokenparity"
REASON_KEY, SEEN_KEY = "reason", "seen"
EQUAL, KNOWN, PARTLY, FAILED, UNREACHABLE = "equal", "known difference", "partly checked", "failed", "unreachable"
"""What an item's property ``tokenparity`` says of it, in reports and in the junit file."""


@dataclass
class Record:
    """What the plugin says of one run of one test.

    A report carries it as an attribute of plain types, which comes through xdist: its properties are anyone's.
    """

    about: dict[str, str] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)
    at: tuple[str, int] | None = None
    """Where the test called, if that is not where it stands."""
    _added: list[tuple[str, object]] = field(default_factory=list)

    @classmethod
    def of(cls, node: pytest.Item) -> Record:
        return node.stash.setdefault(RECORD, cls())

    def add(self, node: pytest.Item, properties: list[tuple[str, object]], **more: object) -> None:
        """Take down a check, and show it in the junit file; ``more`` is for the summary alone."""
        node.user_properties += properties
        self._added += properties
        self.checks.append({**dict(properties), **more})

    def forget(self, node: pytest.Item) -> None:
        """Take away what an earlier run of the same test said (pytest-rerunfailures), and nothing that others said."""
        if self._added:
            kept = [it for it in node.user_properties if not any(it is mine for mine in self._added)]
            node.user_properties[:] = kept
        self._added.clear()
        self.checks.clear()
        self.at = None

    def put_on(self, report: pytest.TestReport) -> None:
        sent = {"about": self.about, "checks": [*self.checks], "at": list(self.at) if self.at else None}
        setattr(report, OUTCOME_KEY, sent)

    @classmethod
    def on(cls, report: object) -> Record | None:
        """What a report carries, if it is one of ours."""
        sent = getattr(report, OUTCOME_KEY, None)
        return cls(sent["about"], sent["checks"], tuple(sent["at"]) if sent["at"] else None) if sent else None


RECORD = pytest.StashKey[Record]()


@dataclass
class Tally:
    """What a process did, in plain types: a worker sends it to the controller."""

    engines: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    case_files: int = 0
    unreadable: list[str] = field(default_factory=list)
    """The node ids of case files, and of cases, that could not be read: collection errors that stop no other test."""
    forgotten: list[str] = field(default_factory=list)
    """Node ids that ``--lf`` remembers and that are there no more."""
    deselected: int = 0
    selected: int = 0
    tests: int = 0
    """How many items of ours were left out and were selected, and how many tests there are to run at all."""

    def add(self, other: Mapping[str, Any]) -> None:
        """Merge what a worker sent. A golden that any worker wrote as new or changed is that.

        Every worker collects all files: what it says of collection is said once.
        """
        self.engines = list(dict.fromkeys([*self.engines, *other["engines"]]))
        self.unreadable = list(dict.fromkeys([*self.unreadable, *other["unreadable"]]))
        self.forgotten = list(dict.fromkeys([*self.forgotten, *other["forgotten"]]))
        for count in ("case_files", "deselected", "selected", "tests"):
            setattr(self, count, max(getattr(self, count), other[count]))
        for path, status in other["written"].items():
            if self.written.get(path) in (None, "unchanged"):
                self.written[path] = status


def find_config(start: Path, rootdir: Path) -> Path | None:
    """The nearest ``tokenparity.yaml`` at or above ``start``, then the one in ``rootdir``; None if there is none."""
    for folder in (start, *start.parents, rootdir):
        candidate = folder / CONFIG_NAME
        if candidate.is_file():
            return candidate
    return None


def is_case_file(config: pytest.Config, path: Path) -> bool:
    """Whether a file is one by its name; asked for every file of a project."""
    patterns: list[str] = config.getini("tokenparity_files")
    # A path is matched only against a pattern that has folders in it.
    return any(path.match(it) if "/" in it else fnmatchcase(path.name, it) for it in patterns)


def registered_markers(config: pytest.Config) -> set[str]:
    lines: list[str] = config.getini("markers")
    return {line.partition(":")[0].partition("(")[0].strip() for line in lines}


class ParitySession:
    """The state of one run, kept in ``config.stash``."""

    def __init__(self, config: pytest.Config, config_path: Path | None) -> None:
        self.pytest_config = config
        self.config_path = config_path
        self.config: Config | None = None
        self.config_error: ConfigError | None = None
        self._hook: Any = config.hook
        self.tally = Tally()
        self.not_looked = ""
        """Why no golden was looked at, where orphans are asked for; empty once they were."""
        self.stopped = ""
        """What keeps the tests from being run."""
        self._scopes: dict[Path, str] = {}
        self.orphans: list[Path] = []
        self.pruned: list[Path] = []
        self.not_pruned: dict[Path, str] = {}
        option = config.option
        self.updating: bool = option.tokenparity_update or option.tokenparity_update_new
        self.pruning: bool = option.tokenparity_prune
        self.skip_unreachable: bool = option.tokenparity_unreachable == "skip"

    def load(self) -> None:
        """Read the configuration. A broken one is kept, for the case files to raise: other tests still run."""
        if self.config_path is None:
            return
        from .config import load_config

        try:
            self.config = load_config(self.config_path)
        except ConfigError as error:
            self.config_error = error

    def usable(self, near: Path | None = None) -> Config:
        """The configuration; ConfigError says why there is none, and whether there is one near a file."""
        if self.config_error is not None:
            raise self.config_error
        if self.config is None:
            for folder in near.parents if near else ():
                found = folder / CONFIG_NAME
                if found.is_file():
                    shown = os.path.relpath(found)
                    raise ConfigError(
                        f"{shown} is below the folder where pytest was started: start it in {os.path.dirname(shown)}, "
                        f"or set tokenparity_config = {shown} in the ini file"
                    )
            start = self.pytest_config.invocation_params.dir
            raise ConfigError(
                f"no tokenparity.yaml at or above {start}: write one, or name one with the ini option tokenparity_config"
            )
        return self.config

    @cached_property
    def checker(self) -> Checker:
        """What checks and records in this process."""
        from .check import Checker, Update
        from .engines.base import Wait

        option = self.pytest_config.option
        update = Update.NOTHING
        if option.tokenparity_update:
            update = Update.ALL
        elif option.tokenparity_update_new:
            update = Update.MISSING
        wait = option.tokenparity_wait
        waiting = Wait() if wait is None else Wait(wait, wait)
        return Checker(self.usable(), self._custom_engine, waiting, update, option.tokenparity_confirm)

    @property
    def update_flag(self) -> str:
        """The flag to print: the short alias, unless the project has a flag of that name."""
        mine = self.pytest_config.stash.get(ALIAS_IS_OURS, False)
        missing = object()
        taken = self.pytest_config.getoption(ALIAS, default=missing) is not missing
        return "--tokenparity-update" if taken and not mine else ALIAS

    def finish(self) -> Tally:
        """Ask the engines who they are, and let go of them."""
        if "checker" in self.__dict__:
            self.tally.engines = list(dict.fromkeys(map(_description, self.checker.used_engines())))
            self.tally.written = {str(path): status for path, status in self.checker.written.items()}
            closed = False
            with _nothing_raised():
                self.checker.close()
                closed = True
            for engine in [] if closed else self.checker.used_engines():  # one that raised leaves the others open
                with _nothing_raised():
                    engine.close()
        return self.tally

    @property
    def unreadable(self) -> int:
        return len(self.tally.unreadable)

    def find_orphans(self, not_looked: str = "") -> None:
        """List the goldens that no case file declares any more, and delete them when pruning.

        ``not_looked`` says why the goldens are left alone after this run.
        """
        self.not_looked = not_looked or ("there is no configuration that can be used" if self.config is None else "")
        if self.config is None or self.not_looked or not (self.updating or self.pruning):
            return
        from .cases import load_case_file
        from .check import orphans
        from .golden import listed, remove

        declared: dict[str, frozenset[tuple[str, str]] | None] = {}
        for _, _, _, file in listed(self.config.golden_dir):
            path = self.config.folder / file
            try:
                if file in declared or not path.is_file() or file.endswith(".py"):
                    continue
                cases = load_case_file(path, self.config).cases
                declared[file] = frozenset((case.name, model) for case in cases for model in case.models)
            except (ConfigError, OSError, ValueError):  # broken, or no name of a file
                declared[file] = None
        self.orphans = orphans(self.config, declared)
        if self.pruning and not self.pytest_config.option.collectonly:
            for path in self.orphans:
                try:
                    remove(path, self.config.golden_dir)
                    self.pruned.append(path)
                except OSError as error:
                    if path.exists():
                        self.not_pruned[path] = error.strerror or str(error)
                    else:  # a folder above it could not be
                        self.pruned.append(path)
            self.orphans = []

    def select(self, path: Path, name: str) -> str:
        """What to give pytest, from the folder where it was started, to run one item."""
        try:
            relative = os.path.relpath(path, self.pytest_config.invocation_params.dir)
        except ValueError:  # another drive
            relative = str(path)
        return f"{Path(relative).as_posix()}::{name}"

    def _custom_engine(self, model: str, name: str, options: Mapping[str, Any]) -> Any:
        return self._hook.pytest_tokenparity_engine(config=self.pytest_config, model=model, name=name, options=options)

    def enter(self, node: pytest.Item) -> None:
        """From here on it is this item's: engines of a conftest below the folder of another one are not its own."""
        self._hook = node.ihook
        if "checker" in self.__dict__ or self.config is not None:
            if node.path not in self._scopes:
                self._scopes[node.path] = self._scope(node.path.parent)
            self.checker.scope = self._scopes[node.path]

    def _scope(self, folder: Path) -> str:
        """The nearest folder at or above ``folder`` whose conftest gives engines: all that it sees is seen from there."""
        impls = self.pytest_config.hook.pytest_tokenparity_engine.get_hookimpls()
        files = [Path(getattr(impl.plugin, "__file__", None) or "") for impl in impls]
        giving = {file.parent for file in files if file.name == "conftest.py"}
        return next((str(it) for it in (folder, *folder.parents) if it in giving), "")


@contextmanager
def _nothing_raised() -> Iterator[None]:
    """An engine of somebody else's may raise anything, SystemExit too; the end of a run must not."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        return


def _description(engine: Engine) -> str:
    with _nothing_raised():
        return str(engine.describe())
    return f"{engine.name} (it did not say what it is)"
