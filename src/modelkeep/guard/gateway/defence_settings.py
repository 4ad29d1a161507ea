"""Which defence the settings choose, with its own parameters; secrets come from files that only the owner can read."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from modelkeep.core.errors import GuardError
from modelkeep.guard.defence import Defence

Budget = Annotated[float, Field(ge=0, le=2)]


class Section(BaseModel):
    """A table of the file: frozen, and with no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Chosen(Section):
    """What the table of every defence has: `noise` bounds how far two computations of a prediction may lie apart."""

    noise: Annotated[float, Field(ge=0, lt=0.1)] = 1e-5


class Nothing(Chosen):
    """Clean predictions; to compare with."""

    name: Literal["none"]

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.no_defence import NoDefence

        return NoDefence()


class OnlyTop(Chosen):
    """The top-1 label only."""

    name: Literal["top1"]

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.top_one import TopOne

        return TopOne()


class Rounded(Chosen):
    """Confidences rounded to a few decimals."""

    name: Literal["rounding"]
    decimals: Annotated[int, Field(ge=1, le=6)] = 1

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.rounding import Rounding

        return Rounding(decimals=self.decimals)


class Reversed(Chosen):
    """The reverse sigmoid."""

    name: Literal["reverse-sigmoid"]
    beta: Annotated[float, Field(gt=0)]
    gamma: Annotated[float, Field(gt=0)] = 0.2

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.reverse_sigmoid import ReverseSigmoid

        return ReverseSigmoid(beta=self.beta, gamma=self.gamma)


class Widest(Chosen):
    """ModelGuard-W."""

    name: Literal["modelguard-w"]
    epsilon: Budget = 1.0

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.modelguard_w import ModelGuardW

        return ModelGuardW(epsilon=self.epsilon)


class Quantised(Chosen):
    """ModelGuard-S, and with a secret its form that never gives a clean answer."""

    name: Literal["modelguard-s"]
    epsilon: Budget = 1.0
    secret_file: Path | None = None

    def build(self, folder: Path) -> Defence:
        from modelkeep.guard.defences.modelguard_s import ModelGuardS

        if self.secret_file is None:
            return ModelGuardS(epsilon=self.epsilon)
        return ModelGuardS(epsilon=self.epsilon, secret=secret(folder / self.secret_file))


AnyDefence = Annotated[
    Nothing | OnlyTop | Rounded | Reversed | Widest | Quantised,
    Field(discriminator="name"),
]
TABLES: dict[str, type[Chosen]] = {
    "none": Nothing,
    "top1": OnlyTop,
    "rounding": Rounded,
    "reverse-sigmoid": Reversed,
    "modelguard-w": Widest,
    "modelguard-s": Quantised,
}


def secret(path: Path) -> bytes:
    """The secret in a file that only its owner can read."""
    private(path, "The secret")
    content = path.read_bytes().strip()
    if len(content) < 16:
        raise GuardError(
            f"The secret in {path} has {len(content)} bytes, and needs 16 or more. "
            f"Make one with: (umask 077; openssl rand -hex 32 > {path})"
        )
    return content


def private(path: Path, what: str) -> None:
    """Refuse a file that is not there, or that others than its owner can read."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise GuardError(f"{what} cannot be read from {path}: {error.strerror}.") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise GuardError(
            f"{what} in {path} can be read by others (mode {stat.S_IMODE(mode):04o}). Run: chmod 600 {path}"
        )
