"""The fixture `tokenparity`: goldens for IDs that a test made itself, and the configured engines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from .cases import case_file_name
from .check import Outcome
from .collection import properties, vocabulary_of
from .config import check_name
from .engines.base import ids_of, token_ids
from .errors import ConfigError, EngineError, EngineUnreachable
from .findings import Problem, Unreachable
from .models import Model
from .report import Subject, failure
from .request import Conversation, Request, Tools
from .session import OUTCOME_KEY, REASON_KEY, ParitySession
from .yaml12 import shown


class TokenParity:
    """What the fixture gives to a test function."""

    def __init__(self, node: pytest.Item, session: ParitySession) -> None:
        self._node = node
        self._session = session
        session.enter(node)

    def assert_golden(self, name: str, ids: Iterable[int], *, model: str) -> None:
        """Compare IDs with ``golden/<model>/<test file without .py>/<name>.json``; record them under an update flag.

        ``ids`` is a list of token IDs, or an array or tensor of one dimension. ``model`` is a configured one. The test
        fails where the golden is missing or has other IDs.
        """
        __tracebackhide__ = True
        try:
            config = self._session.usable()
            config.model(model)
            fault = check_name(name, "the golden's name")
            if fault:
                raise ConfigError(fault)
            file = case_file_name(self._node.path, config)
            checked = token_ids(ids, "the test")
        except (ConfigError, EngineError) as error:
            raise self._ended(Outcome((Problem(str(error)),))) from None
        recorder = f"{file}::{self._node.name}"
        outcome = self._session.checker.check_ids(name, checked, model, file, file.removesuffix(".py"), recorder)
        if not outcome.findings:
            self._node.user_properties += [("model", model), *properties(outcome)]
            return
        raise self._ended(outcome, model, f", golden {name!r}")

    def engine(self, model: str, name: str) -> FixtureEngine:
        """The configured engine ``name`` of ``model``: a TokenRenderer."""
        __tracebackhide__ = True
        try:
            self._session.usable()
            runtime = self._session.checker.model(model)
            runtime.engine(name)
        except (ConfigError, EngineError) as error:
            raise self._ended(Outcome((Problem(str(error)),))) from None
        return FixtureEngine(runtime, name, self)

    def _ended(self, outcome: Outcome, model: str | None = None, what: str = "") -> BaseException:
        """The exception that ends the test: a failure of a few lines, or a skip where that was asked for."""
        node = self._node
        node.user_properties += [*([("model", model)] if model else []), *properties(outcome)]
        if outcome.unreachable is not None and self._session.skip_unreachable:
            return pytest.skip.Exception(outcome.unreachable)
        subject = Subject(
            engine="the test",
            at=f"{shown(node.path)}:{(node.reportinfo()[1] or 0) + 1}: {node.name}{what}",
            select=self._session.select(node.path, node.nodeid.partition("::")[2]),
            update_flag=self._session.update_flag,
            is_case=False,
        )
        vocabulary = vocabulary_of(self._session, model, outcome) if model else None
        lines = failure(outcome, subject, vocabulary, node.config.get_verbosity())
        return pytest.fail.Exception("\n".join(line.text for line in lines), pytrace=False)


class FixtureEngine:
    """A configured engine inside a test: one that cannot be asked fails or skips the test, in one line."""

    def __init__(self, model: Model, name: str, parity: TokenParity) -> None:
        self.name = name
        self._model = model
        self._parity = parity

    def ids(self, conversation: Conversation, tools: Tools | None = None, **template_kwargs: Any) -> list[int]:
        """The prompt's token IDs; RequestRefused if the engine refuses the request."""
        __tracebackhide__ = True
        try:
            rendering = self._model.render(self.name, Request.of(conversation, tools, **template_kwargs))
            return ids_of(rendering, self.name)
        except EngineError as error:
            message = str(error)
            outcome = Outcome((Problem(message),))
            if isinstance(error, EngineUnreachable):
                found = Unreachable(message, self._model.settings.engine(self.name).place)
                outcome = Outcome((found,), unreachable=message)
            raise self._parity._ended(outcome, self._model.settings.name) from None


def forget_properties(node: pytest.Item) -> None:
    """Take away what an earlier run of the same test said (pytest-rerunfailures)."""
    ours = ("model", OUTCOME_KEY, REASON_KEY, "first_divergence")
    node.user_properties[:] = [(key, value) for key, value in node.user_properties if key not in ours]
