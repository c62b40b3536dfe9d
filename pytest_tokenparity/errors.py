"""Every exception and warning of the package; each is also the natural builtin."""

from __future__ import annotations


class TokenParityError(Exception):
    """Base of everything this package raises on purpose; its text is one readable message."""


class ConfigError(TokenParityError, ValueError):
    """A configuration or case file says something that cannot be used; the text starts with ``file:line``."""


class InvalidConversation(TokenParityError, AssertionError, ValueError):
    """A conversation or tool schema is not one that a chat API takes.

    ``where`` is the path of the fault inside what was checked, such as ``(1, "content")``.
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.where = where


class RequestRefused(TokenParityError):
    """An engine answered that it does not render this request (its template raised, or its parser did)."""


class EngineError(TokenParityError, RuntimeError):
    """An engine gave no usable answer: wrong settings, a wrong server, or a reply of another shape."""


class EngineUnreachable(EngineError):
    """Nothing answers at the engine's address, or not in time; ``advice`` is what to do where that is known."""

    def __init__(self, message: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class WrongServer(EngineError):
    """A server was reached, and its answer is not one that this engine can use; ``advice`` as above."""

    def __init__(self, message: str = "", advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class GoldenError(TokenParityError):
    """A golden file is there and cannot be used, or cannot be written."""


class TokenParityWarning(UserWarning):
    """Something worth knowing that changes no outcome."""
