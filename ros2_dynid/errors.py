"""The one error family: every error is a single line that says what is wrong and what to do, and carries its data."""

from __future__ import annotations


class DynidError(Exception):
    """Something went wrong that the user can be told about in one line."""


class InputError(DynidError):
    """Bad input: a file, an option or an array. The command line ends with exit code 2."""

    def __init__(self, what: str, cure: str, source: str | None = None) -> None:
        """Say `what` is wrong, the `cure`, and the file or element (`source`) it was found in."""
        self.what, self.cure, self.source = one_line(what), one_line(cure), source
        where = f"{one_line(source)}: " if source else ""
        super().__init__(f"{where}{self.what}; {self.cure}")


class RankError(DynidError):
    """A matrix has not the rank that the computation needs."""

    def __init__(self, what: str, cure: str, *, rank: int, expected: int, tolerance: float) -> None:
        """Keep the numerical `rank` found with the absolute `tolerance`, and the rank `expected`."""
        self.rank, self.expected, self.tolerance = rank, expected, tolerance
        super().__init__(f"{one_line(what)} (rank {rank} of {expected} at tolerance {tolerance:.1e}); {one_line(cure)}")


class MissingPackageError(DynidError):
    """An optional package is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        """Name the `package` and what it is needed for (`purpose`)."""
        self.package = package
        super().__init__(f"{purpose} needs the Python package {package}; install it: pip install {package}")


def one_line(text: str) -> str:
    """Return text without control characters or line breaks: names come from files that we do not trust."""
    return "".join(c if c.isprintable() else " " for c in text)
