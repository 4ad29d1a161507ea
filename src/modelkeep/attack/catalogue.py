"""The catalogue: every attack by its name, with what it takes, for command lines and for tests over all attacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, get_args, get_type_hints

from modelkeep.attack.blind.boundary import boundary
from modelkeep.attack.blind.one_pixel import one_pixel
from modelkeep.attack.blind.square import square
from modelkeep.attack.ensemble import standard
from modelkeep.attack.gradient.apgd import apgd
from modelkeep.attack.gradient.bim import bim
from modelkeep.attack.gradient.fgsm import fgsm
from modelkeep.attack.gradient.ilcm import ilcm
from modelkeep.attack.gradient.pgd import pgd
from modelkeep.attack.nearest.cw import cw
from modelkeep.attack.nearest.ddn import ddn
from modelkeep.attack.nearest.deepfool import deepfool
from modelkeep.attack.nearest.fab import fab
from modelkeep.attack.nearest.fmn import fmn
from modelkeep.attack.nearest.jsma import jsma
from modelkeep.attack.nearest.lbfgs import lbfgs
from modelkeep.attack.result import Attacked
from modelkeep.attack.transfer.transfer import transfer
from modelkeep.core.errors import InputError
from modelkeep.core.norms import NORMS


@dataclass(frozen=True)
class Entry:
    """One attack: its function, what it needs to see, a line on what it does, and its norm where it has only one."""

    function: Callable[..., Attacked]
    sees: str
    does: str
    only_norm: str = ""

    @property
    def takes(self) -> frozenset[str]:
        """The names of its settings."""
        return frozenset(signature(self.function).parameters) - {"model", "data"}

    @property
    def norms(self) -> tuple[str, ...]:
        """The norms that it knows."""
        if self.only_norm:
            return (self.only_norm,)
        return get_args(get_type_hints(self.function)["norm"]) or NORMS

    @property
    def needs_radius(self) -> bool:
        """Whether it searches within a radius, and not for the smallest change."""
        radius = signature(self.function).parameters.get("radius")
        return radius is not None and radius.default is radius.empty


ATTACKS: dict[str, Entry] = {
    "standard": Entry(
        standard, "weights", "an ensemble like AutoAttack: APGD-CE, APGD-T, FAB-T, Square on what stands"
    ),
    "fgsm": Entry(fgsm, "weights", "one step to the edge of the ball (eq. 2.10–2.12)"),
    "bim": Entry(bim, "weights", "steps from the original (eq. 2.13)"),
    "ilcm": Entry(
        ilcm, "weights", "steps towards the least likely class (eq. 2.14); without a radius, as far as it goes"
    ),
    "pgd": Entry(pgd, "weights", "steps from random starts, projected into the ball (eq. 2.15)"),
    "apgd": Entry(apgd, "weights", "PGD that finds its own step size"),
    "lbfgs": Entry(lbfgs, "weights", "Szegedy's: the smallest change by L-BFGS (eq. 2.9); slow", "l2"),
    "cw": Entry(cw, "weights", "Carlini and Wagner's smallest change, in l2, linf or l0"),
    "deepfool": Entry(deepfool, "weights", "to the nearest linearised boundary, again and again"),
    "fab": Entry(fab, "weights", "along the linearised boundary, back towards the original"),
    "ddn": Entry(ddn, "weights", "the smallest l2 change, direction and norm apart", "l2"),
    "fmn": Entry(fmn, "weights", "the smallest change in any norm, fast"),
    "jsma": Entry(jsma, "weights", "the pixels that count most, one pair after the other", "l0"),
    "one-pixel": Entry(one_pixel, "scores", "a few pixels, by differential evolution", "l0"),
    "square": Entry(square, "scores", "random squares, kept where they help"),
    "transfer": Entry(transfer, "scores", "PGD on a proxy that learns its answers (eq. 2.7), tried on the model"),
    "boundary": Entry(boundary, "labels", "along the decision boundary, by its answers alone"),
}


def prepared(name: str, settings: Mapping[str, Any], *, radius: float | None = None) -> partial[Attacked]:
    """The attack of that name with those of the settings that are not None; call it with model, data and seed.

    A setting that the attack does not take is refused, so that nobody believes it was heeded.
    """
    if name not in ATTACKS:
        raise InputError(f"There is no attack '{name}'. There are: {', '.join(ATTACKS)}.")
    entry = ATTACKS[name]
    given = {key: value for key, value in settings.items() if value is not None}
    if unknown := sorted(given.keys() - entry.takes):
        raise InputError(f"The attack '{name}' takes no {unknown[0]}. It takes: {', '.join(sorted(entry.takes))}.")
    if "norm" in given and given["norm"] not in entry.norms:
        raise InputError(f"The attack '{name}' is for {', '.join(entry.norms)}. Got {given['norm']}.")
    if radius is not None and "radius" not in entry.takes:
        raise InputError(f"The attack '{name}' takes no radius (--eps): it looks for the smallest change.")
    if radius is None and entry.needs_radius:
        raise InputError(f"The attack '{name}' searches within a radius, so it needs one (--eps).")
    return partial(entry.function, **given) if radius is None else partial(entry.function, **given, radius=radius)
