"""Case files as pytest files, and every (case x model x engine) as one pytest item."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .cases import Case, read_case_file
from .check import Outcome
from .errors import ConfigError, EngineError, TokenParityWarning
from .failure import CheckFailed, FailureText, crash_line_alone
from .findings import Difference, GoldenMissing, GoldenUnusable, Problem, RefusalDiffers, TextDiffers, Unreachable
from .report import Line, Subject, failure, shows_tokens
from .session import (
    EQUAL,
    FAILED,
    KNOWN,
    OUTCOME_KEY,
    PARTLY,
    REASON_KEY,
    SEEN_KEY,
    SESSION,
    UNREACHABLE,
    ParitySession,
    Record,
)
from .yaml12 import shown

if TYPE_CHECKING:
    from .vocabulary import Vocabulary


_CALLERS = frozenset({"_pytest", "pluggy", "pytest_timeout.py", "pytest_rerunfailures.py"})


class _ConfigErrors(pytest.Collector):
    """A collector whose mistakes are one line, without a traceback."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]  # as Collector's
        # A warning is here where the project turns warnings into errors.
        if not isinstance(excinfo.value, (ConfigError, TokenParityWarning)):
            return super().repr_failure(excinfo)
        unreadable = self.config.stash[SESSION].tally.unreadable
        if self.nodeid not in unreadable:
            unreadable.append(self.nodeid)
        return FailureText.of_lines([Line(str(excinfo.value), {"red": True})], shown(self.path), 1)


class ParityFile(_ConfigErrors, pytest.File):
    """One case file."""

    def collect(self) -> list[ParityItem | BrokenCase]:
        """Its items, model by model, so that one tokenizer is in use at a time; a broken case is an error of its own."""
        session = self.config.stash[SESSION]
        session.tally.case_files += 1
        config = session.usable(near=self.path)
        file = read_case_file(self.path, config)
        broken: dict[str, Exception] = dict(file.broken)
        marks: dict[str, list[pytest.MarkDecorator]] = {}
        for case in file.cases:
            try:
                for message in file.warnings.get(case.name, ()):
                    self._warn(case, message)
                marks[case.name] = [self._mark(case, name) for name in case.marks]
            except (ConfigError, TokenParityWarning) as fault:  # a warning where the project makes errors of them
                broken[case.name] = fault
        found: list[ParityItem | BrokenCase] = [
            BrokenCase.from_parent(self, name=id_, nodeid=f"{self.nodeid}::{id_}", error=error)
            for name, error in broken.items()
            for id_ in self._asked_for(name) or [name]
        ]
        about: dict[tuple[str, str, str], pytest.MarkDecorator] = {}
        for model in config.models.values():
            plain = getattr(pytest.mark, model.marker)
            for case in file.cases:
                if case.name in broken or model.name not in case.models:
                    continue
                for engine in model.engines:
                    if case.engines is None or engine.name in case.engines:
                        key = model.name, engine.name, case.shape
                        if key not in about:
                            about[key] = pytest.mark.tokenparity(model=key[0], engine=key[1], shape=key[2])
                        found.append(self._item(case, model.name, engine.name, [about[key], plain, *marks[case.name]]))
        self._forget(found, broken)
        return found

    def _asked_for(self, case: str) -> list[str]:
        """The items of a case that the command line names: where it is broken each of them is its error."""
        start = self.config.invocation_params.dir
        asked = [arg.partition("::") for arg in self.config.args]
        return list(
            dict.fromkeys(
                item
                for path, _, item in asked
                if item.startswith(f"{case}[") and Path(os.path.abspath(start / path)) == self.path
            )
        )

    def _forget(self, found: Iterable[ParityItem | BrokenCase], broken: Iterable[str]) -> None:
        """Let `--lf` know what became of cases: one that is whole again has items in its place, one that is gone none."""
        failed: dict[Any, bool] = getattr(self.config.pluginmanager.get_plugin("lfplugin"), "lastfailed", {})
        mine = {str(key): key for key in failed if str(key).startswith(f"{self.nodeid}::")}
        for nodeid in mine.keys() - {node.nodeid for node in found}:
            case, item, _ = nodeid.removeprefix(f"{self.nodeid}::").partition("[")
            if case in broken:
                continue
            del failed[mine[nodeid]]
            self.config.stash[SESSION].tally.forgotten.append(nodeid)
            if not item:
                whole = [node for node in found if isinstance(node, ParityItem) and node.case.name == case]
                failed.update((getattr(node, "id", node.nodeid), True) for node in whole)

    def _mark(self, case: Case, name: str) -> pytest.MarkDecorator:
        """A mark of a case; what pytest says of one that is not registered is said with the place of the case."""
        place = f"{shown(self.path)}:{case.line}: cases.{case.name}.marks"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                mark: object = getattr(pytest.mark, name)
            except (AttributeError, pytest.fail.Exception) as error:
                raise ConfigError(f"{place}: {error}") from None
        if not isinstance(mark, pytest.MarkDecorator):  # an attribute that every object has
            raise ConfigError(f"{place}: {name!r} is no name of a mark")
        if caught:
            self._warn(
                case, f"cases.{case.name}.marks: {name!r} is not registered: add it to `markers` in the ini file"
            )
        return mark

    def _warn(self, case: Case, message: str) -> None:
        warnings.warn_explicit(TokenParityWarning(message), None, str(self.path), case.line)

    def _item(self, case: Case, model: str, engine: str, marks: list[pytest.MarkDecorator]) -> ParityItem:
        name = f"{case.name}[{model}-{engine}]"
        # The node id is given: pytest 9.2 splits a derived one at its brackets and loses the item under --lf.
        item: ParityItem = ParityItem.from_parent(
            self, name=name, nodeid=f"{self.nodeid}::{name}", case=case, model=model, engine=engine
        )
        for mark in marks:
            item.add_marker(mark)
        return item


class BrokenCase(_ConfigErrors):
    """A case that cannot be read: a collection error, beside which the other cases of its file run."""

    def __init__(self, *, error: Exception, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def collect(self) -> Iterable[ParityItem]:
        raise self.error


class ParityItem(pytest.Item):
    """One case of one model through one engine."""

    def __init__(self, *, case: Case, model: str, engine: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        self.model = model
        self.engine = engine
        self.about: list[tuple[str, object]] = [("model", model), ("engine", engine), ("shape", case.shape)]
        self.user_properties += self.about
        record = Record.of(self)
        record.about = {"model": model, "engine": engine, "shape": case.shape}
        record.about |= {"file": case.golden_name, "case": case.name, "line": f"{case.line}"}

    def runtest(self) -> None:
        """Check; a finding is raised, an engine that cannot be reached is skipped if that was asked for."""
        session = self.config.stash[SESSION]
        record = Record.of(self)
        record.forget(self)
        session.enter(self)
        outcome = self._checked(session)
        record.add(self, properties(outcome), **for_summary(outcome))
        for message in outcome.warnings:
            warnings.warn_explicit(TokenParityWarning(message), None, str(self.path), self.case.line)
        if outcome.unreachable is not None and session.skip_unreachable:
            pytest.skip(outcome.unreachable)
        if outcome.findings:
            raise CheckFailed(outcome)

    def _checked(self, session: ParitySession) -> Outcome:
        """What came of the check. What other people's code raises that is no Exception is a finding of one line."""
        try:
            return session.checker.check(self.case, self.model, self.engine)
        except BaseException as error:
            from .engines.base import is_not_ours, raised

            if isinstance(error, Exception) or is_not_ours(error):
                raise
            return Outcome((Problem(f"the engine {self.engine!r} raised {raised(error)}"),))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A finding as text; what nobody expected as a short traceback."""
        if isinstance(excinfo.value, CheckFailed):
            return failure_text(self.config.stash[SESSION], excinfo.value.outcome, self)
        ended = excinfo.value
        if isinstance(ended, pytest.skip.Exception) or (isinstance(ended, pytest.fail.Exception) and not ended.pytrace):
            return super().repr_failure(excinfo, style)
        return excinfo.getrepr(style="short", tbfilter=_without_pytest)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        return self.path, self.case.line - 1, self.name


def _without_pytest(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """The traceback without the frames of pytest and of plugins that only called on."""
    kept = excinfo.traceback.filter(lambda entry: not _CALLERS.intersection(Path(str(entry.path)).parts))
    return kept or excinfo.traceback[-1:]


def properties(outcome: Outcome) -> list[tuple[str, object]]:
    """What an outcome says in reports and in the junit file."""
    if outcome.unreachable is not None:
        return [(OUTCOME_KEY, UNREACHABLE), (REASON_KEY, outcome.unreachable)]
    if outcome.findings:
        first = outcome.first_divergence
        return [(OUTCOME_KEY, FAILED), *([] if first is None else [("first_divergence", str(first))])]
    if outcome.unseen:
        seen = [] if outcome.seen else [(SEEN_KEY, "nothing")]
        return [(OUTCOME_KEY, PARTLY), (REASON_KEY, "; ".join(outcome.unseen)), *seen]
    if outcome.expected:
        at = [] if outcome.expected_at is None else [("first_divergence", str(outcome.expected_at))]
        return [(OUTCOME_KEY, KNOWN), (REASON_KEY, outcome.expected.reason), *at]
    return [(OUTCOME_KEY, EQUAL)]


def for_summary(outcome: Outcome) -> dict[str, object]:
    """What the summary asks beside the properties: whether anything was compared at all, and why not."""
    apart = (GoldenMissing, GoldenUnusable, Problem, Unreachable)
    if outcome.findings and all(isinstance(found, apart) for found in outcome.findings):
        return {"compared": False, REASON_KEY: outcome.findings[0].headline}
    requests = outcome.golden.requests if outcome.golden else ()
    refused = bool(requests) and all(it.refused is not None for it in requests)
    return {"compared": True, "confirmed": outcome.confirmed, "refused": refused, "causes": causes(outcome)}


def causes(outcome: Outcome) -> list[str]:
    """The causes of a difference, each once, as `expect` names them; ``unknown`` among them for a rest, ``refuses`` for an
    engine's refusal."""
    if outcome.expected is not None:
        return [str(cause) for cause in outcome.expected.differs] or ["unknown"]
    found: dict[str, None] = {}
    for finding in outcome.findings:
        if isinstance(finding, (Difference, TextDiffers, RefusalDiffers)):
            if isinstance(finding, RefusalDiffers) and finding.refused_by_engine:
                found["refuses"] = None
                continue
            why = finding.why
            found.update(dict.fromkeys(str(cause) for cause in why.causes) if why else {})
            if why is None or why.word in ("in part", "unknown"):
                found["unknown"] = None
    return list(found)


def failure_text(session: ParitySession, outcome: Outcome, item: ParityItem) -> FailureText:
    """The failure of an item; the vocabulary is loaded only here, where tokens are shown."""
    line = item.case.line
    settings = session.usable().models[item.model]
    subject = Subject(
        engine=item.engine,
        at=f"{shown(item.path)}:{line}: {item.name}",
        select=session.select(item.path, item.name),
        update_flag=session.update_flag,
        is_reference=item.engine == settings.reference.name,
        pin=f"{item.model}/{item.engine}" if len(item.case.models) > 1 else item.engine,
    )
    vocabulary = vocabulary_of(session, item.model, outcome)
    lines = failure(outcome, subject, vocabulary, verbosity(item.config))
    return FailureText.of_lines(lines, shown(item.path), line, crash_line_alone(item.config))


def verbosity(config: pytest.Config) -> int:
    """How much to tell: the option is missing where pytest's terminal is off."""
    return int(config.getoption("verbose", 0))


def vocabulary_of(session: ParitySession, model: str, outcome: Outcome) -> Vocabulary | None:
    """The vocabulary to show tokens with, or None: then the IDs alone are shown."""
    if not shows_tokens(outcome):
        return None
    try:
        return session.checker.model(model).vocabulary
    except (EngineError, ConfigError):
        return None
