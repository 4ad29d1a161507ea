"""Does it stand when an attacker changes the input a little?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from modelkeep.attack import Attacked, Standard
from modelkeep.audit.cost import Cost
from modelkeep.audit.evidence import show_attacked
from modelkeep.audit.findings import Finding, Outcomes, Section, Severity
from modelkeep.audit.hidden_gradients import BLIND, find_hindrances, search_blindly
from modelkeep.audit.plan import DEPTHS, Depth
from modelkeep.core import plots
from modelkeep.core.card import Preprocessing
from modelkeep.core.data import Data
from modelkeep.core.errors import InputError
from modelkeep.core.method import declare, options_of, setting
from modelkeep.core.model import Model
from modelkeep.core.registry import find
from modelkeep.core.results import Estimate
from modelkeep.report.measure import Measure, percent
from modelkeep.report.picture import Picture

# Besides the steps, each attack asks for the clean answers, for some of them again, and checks each success.
_BESIDES = 4
DEFAULT = "pgd"
# Steps, targets and queries of the ensemble by depth: a part of AutoAttack's, and all of them.
_ENSEMBLE = {"standard": (30, 3, 300), "deep": (100, 9, 5000)}


@declare("check", "robustness", access="weights", paper="Madry2018")
class CheckRobustness:
    """An attack in L∞ and L2 at radii that are shares of the input's range, or of each feature's spread without one."""

    examples: int = setting("Examples to look at, drawn by the seed.", default=256, at_least=1)
    radii: tuple[float, ...] = setting("Radii, as shares of the input's range or spread.", default=(0.01, 0.03, 0.1))
    steps: int = setting("Steps of the attack, if it takes steps.", default=40, at_least=1)
    attack: str | None = setting(
        "An attack within a radius, by its name in the registry; else PGD, and deeper the standard ensemble.",
        default=None,
    )
    depth: Depth = setting(
        "PGD alone (quick), the standard ensemble at the middle radius and a search without gradients (standard), or "
        "both at full length (deep).",
        default="quick",
        choices=DEPTHS,
    )

    def cost(self, model: Model, data: Data) -> Cost:
        """At most this: an attack goes on only with the examples that still stand."""
        kind = find("attack", self.attack or DEFAULT).load()
        settings = {option.name: option.default for option in options_of(kind)}
        steps = 2 * self.steps if "steps" in settings else settings.get("queries", 2)
        norms = 2 if _knows(kind, "l2") else 1
        examples = min(self.examples, len(data))
        passes = norms * len(self.radii) * examples * (steps + _BESIDES)
        if self.attack is None and self.depth != "quick":
            climbs, most, queries = _ENSEMBLE[self.depth]
            targets = min(most, len(model.classes) - 1)
            # APGD once and for each target; FAB for each target takes about twice as much.
            passes += examples * (2 * climbs * (1 + 3 * targets) + queries) + min(BLIND, examples) * queries
        return Cost(passes, instead="Fewer examples or steps take less: --examples, --steps.")

    def __call__(self, model: Model, data: Data, *, seed: int = 0) -> Section:
        """Attack a sample of the data."""
        data = data.sample(min(self.examples, len(data)), seed)
        if model.bounds is not None:
            unit, size = "the range", model.bounds[1] - model.bounds[0]
        else:
            unit, size = "its spread", 1.0
            model, data = _in_units_of_spread(model, data)
        radii = [share * size for share in self.radii]
        # Half the length of the cube's diagonal: a budget of the same order, spent on a few features or on all.
        across = math.sqrt(math.prod(model.input_shape)) / 2
        kind = find("attack", self.attack or DEFAULT).load()
        attacks = [self._attack(kind, "linf", radius)(model, data, seed=seed) for radius in radii]
        rounds = []
        if _knows(kind, "l2"):
            rounds = [self._attack(kind, "l2", radius * across)(model, data, seed=seed) for radius in radii]
        clean = attacks[0].clean_accuracy
        middle = len(radii) // 2
        main, masked = attacks[middle], list[Finding]()
        if self.attack is None and self.depth != "quick":
            steps, targets, queries = _ENSEMBLE[self.depth]
            ensemble = Standard(radius=radii[middle], steps=steps, targets=targets, queries=queries)
            main = ensemble(model, data, seed=seed)
            masked = search_blindly(attacks[-1], model, data, queries, seed)
        shown_attacks = [main if attack is attacks[middle] else attack for attack in attacks]
        curve = plots.curve(
            [0.0, *self.radii],
            {
                "each feature changed by at most …": _accuracies(shown_attacks),
                **({"the same, spent freely (L2)": _accuracies(rounds)} if rounds else {}),
            },
            x_label=f"size of the change, as a share of {unit}",
            y_label="accuracy",
        )
        share = f"{100 * self.radii[middle]:g} % of {unit}"
        pictures = [
            Picture(
                plots.data_uri(curve),
                "Accuracy against the size of the change",
                "Accuracy under attack. 0 is the clean data; the band is the 95 % interval.",
            )
        ]
        evidence = show_attacked(main if bool((main.distance > 0).any()) else attacks[-1])
        finding = replace(
            _verdict(main, clean, share, self.attack or DEFAULT, bool(masked)),
            value=Measure(f"accuracy when each feature may change by up to {share}", main.robust_accuracy),
            access="weights",
            queries=main.queries + main.gradients,
            outcomes=Outcomes.of(data, main.after == main.labels),
        )
        if model.bounds is not None:  # else the inputs were scaled, which no command does
            sample = f"data.sample({len(data)}, {seed})"
            finding = replace(
                finding,
                command=f"{main.command} --examples {len(data)}",
                python=main.python.replace("(model, data,", f"(model, {sample},"),
                fix=f"modelkeep harden MODEL --data DATA --radius {radii[middle]:.4g}",
            )
        if finding.status == "fail":
            finding = replace(finding, evidence=evidence)
        else:
            pictures += evidence
        return Section(
            "Can it be fooled?",
            f"The attack {main.attack} looks for a small change of the input that changes the answer. "
            "What it finds is real; that it finds nothing proves nothing.",
            (
                Measure(f"accuracy when each feature may change by up to {share}", main.robust_accuracy),
                *(
                    Measure(f"the same, up to {100 * each:g} % of {unit}, L∞ {a.size}", a.robust_accuracy)
                    for each, a in zip(self.radii, attacks, strict=True)
                    if a is not attacks[middle]
                ),
                *(Measure(f"accuracy when the whole change is short, L2 {a.size}", a.robust_accuracy) for a in rounds),
            ),
            (finding, *(masked or find_hindrances([*attacks, *rounds]))),
            tuple(pictures),
        )

    def _attack(self, kind: type, norm: str, radius: float) -> Callable[..., Attacked]:
        """The attack with the audit's settings, as far as it has them."""
        known = {option.name for option in options_of(kind)}
        if "radius" not in known:
            raise InputError(f"The audit needs an attack within a radius; '{self.attack or DEFAULT}' takes none.")
        given = {"norm": norm, "radius": radius, "steps": self.steps}
        attack: Callable[..., Attacked] = kind(**{name: value for name, value in given.items() if name in known})
        return attack


def _knows(kind: type, norm: str) -> bool:
    return any(option.name == "norm" and norm in option.setting.choices for option in options_of(kind))


def _in_units_of_spread(model: Model, data: Data) -> tuple[Model, Data]:
    """The same model and data with each feature measured in its standard deviations from its mean."""
    mean = data.x.mean(dim=0)
    spread = data.x.std(dim=0) if len(data) > 1 else torch.ones_like(mean)
    scaled = replace(data, x=(data.x - mean) / torch.where(spread > 0, spread, 1.0), bounds=None)
    card = replace(model.card, preprocessing=Preprocessing())
    return Model.from_card(_Restored(model, mean, spread), card, model.device), scaled


class _Restored(nn.Module):
    """From standard deviations back to the owner's units; a feature that never varies cannot be moved."""

    mean: torch.Tensor
    spread: torch.Tensor

    def __init__(self, model: Model, mean: torch.Tensor, spread: torch.Tensor) -> None:
        super().__init__()
        self.inner = model.module
        self.forward_owner = model.forward
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward_owner(x * self.spread + self.mean)


def _accuracies(attacks: list[Attacked]) -> list[Estimate]:
    return [attacks[0].clean_accuracy, *(attack.robust_accuracy for attack in attacks)]


def _verdict(main: Attacked, clean: Estimate, share: str, attack: str, masked: bool) -> Finding:
    kept = main.robust_accuracy
    fallen = float(((main.before == main.labels) & (main.after != main.labels)).double().mean())
    measured = (
        f"{main.attack}: accuracy falls from {percent(clean.value)} to {percent(kept.value)} (at most "
        f"{percent(kept.high)}) on the same {kept.n} examples when each feature may change by up to {share}."
    )
    severity: Severity
    if kept.high < 0.5 * clean.value:
        severity, title = "high", "A small change of the input makes it wrong most of the time"
    elif kept.high < 0.9 * clean.value:
        severity, title = "medium", "A small change of the input often makes it wrong"
    elif clean.low <= 1 / len(main.classes) or kept.low < 0.8 * clean.value:
        return Finding(
            id="robustness.unclear",
            severity="unclear",
            title="Too little to say whether it can be fooled",
            measured=f"Accuracy is {clean} on clean inputs and {kept} on attacked ones.",
            meaning="Either the model hardly knows its task, or these are too few examples.",
            remedy="Look at the accuracy first, then attack more examples (--examples).",
        )
    else:
        return Finding(
            id=f"robustness.stands-against-{attack}",
            severity="good",
            title="The attack hardly lowers its accuracy",
            measured=f"Accuracy is {percent(clean.value)} on clean inputs and {percent(kept.value)} on attacked ones.",
            meaning="This attack found little. A stronger one may find more: only a certificate is a proof.",
            remedy="Attack it with the standard ensemble: modelkeep attack MODEL --data DATA "
            f"--radius {main.radius or 0:.4g}",
            partial="Its gradients are hidden from this attack." if masked else "",
        )
    return Finding(
        id="robustness.adversarial-examples",
        severity=severity,
        title=title,
        measured=measured,
        meaning=f"For {percent(fallen)} of the examples the attack found a change of at most {share} per feature "
        "that makes the model wrong.",
        remedy=f"Train it on attacked inputs: modelkeep harden MODEL --data DATA --radius {main.radius or 0:.4g}",
        weight=clean.value - kept.value,
    )
