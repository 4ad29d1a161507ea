"""Findings 1, 2 and 4 of Martic2018, and the supervised side of finding 5: ours beside the paper's, with verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from modelkeep.completion.hardness import ALPHAS, Hardness, Retraining
from modelkeep.completion.procedures import PROCEDURES
from modelkeep.core.method import declare
from modelkeep.core.results import Estimate
from modelkeep.papers.martic2018.paper_figures import ALEXNET, RESNET50
from modelkeep.papers.martic2018.settings import (
    ALEXNET_PARTS,
    HORIZONTAL,
    SEEDS,
    Network,
    resnet_parts,
    seeds,
    settings,
)
from modelkeep.papers.martic2018.supervised_trials import retrainings, trials
from modelkeep.papers.martic2018.tables import (
    LAST,
    CompletionTable,
    at_each,
    cells,
    fewest_steps,
    measure_network,
    over_parts,
    report_study,
    strongest,
)
from modelkeep.papers.result import Claim, above
from modelkeep.papers.study import PaperStudy, Size
from modelkeep.study.study import StudyResult
from modelkeep.study.trials import Trial

_PAPERS = ("T1", "T2", *(name for name in PROCEDURES if name.startswith(("T3", "T4"))))
SCHEMES = tuple(name for name in _PAPERS if name.startswith("T4"))
FEW = ("T3 relu 4x", "T4 glorot normal", "T4 msra", "T5", "T6", "T7")
"""What the small size tries beside T1 and T2, and on two parts only: one convolution and one dense layer."""
_LOW = (0.5, 0.8)
_BELOW_ONE = (0.5, 0.8, 0.9)
NEAR = 0.1
"""At α = 1 the means of AlexNet's and ResNet50's tables are 0.43 and 0.35: as near as this is "about the same"."""
_CHANCE = 0.2
"""Three runs and three more of the same kind lie apart, each of the one above all of the other or below, in one case
of ten; twice as many are still no sign of a difference."""
_BEYOND = ("T5", "T6", "T7")
_WIDTHS: tuple[Network, ...] = ("AlexNet small", "AlexNet", "AlexNet large")


def layer_trials(size: Size, seed: int) -> list[Trial]:
    """Both networks, one part after another, by T1 and T2: what findings 2 and 5 compare."""
    runs = seeds(seed)
    return [
        *trials(settings("AlexNet", size), ALEXNET_PARTS, ("T1", "T2"), runs),
        *trials(settings("ResNet", size), resnet_parts(size), ("T1", "T2"), runs),
    ]


def procedure_trials(size: Size, seed: int) -> Sequence[Trial]:
    """T1 and T2 on all parts; the small size has two of AlexNet's by the others too, and medium all of both networks.

    The paper tried T3 and T4 on A3C alone; so does its size here.
    """
    runs, found = seeds(seed), layer_trials(size, seed)
    if size == "small":
        found += trials(settings("AlexNet", size), (ALEXNET_PARTS[2], ALEXNET_PARTS[5]), FEW, runs)
    if size == "medium":
        found += trials(settings("AlexNet", size), ALEXNET_PARTS, (*_PAPERS[2:], *_BEYOND), runs)
        found += trials(settings("ResNet", size), resnet_parts(size), _BEYOND, runs)
    return found


def procedures(result: StudyResult) -> CompletionTable:
    """Finding 1, and the strongest procedure for each cut, ours from beyond the paper included."""
    alexnet = measure_network(result.records, "AlexNet", one_layer)
    resnet = measure_network(result.records, "ResNet")
    claims = (
        fewest_steps("On AlexNet T1 is the best of the paper's procedures in most cases.", alexnet, "T1", _PAPERS[1:]),
        fewest_steps("On AlexNet T1 is better than T2.", alexnet, "T1", ("T2",)),
        fewest_steps("T1 is better than T3.", alexnet, "T1", [name for name in _PAPERS if name.startswith("T3")]),
        _schemes(alexnet),
        fewest_steps("(Not the paper's:) T1 is better than T5, T6 and T7, too.", alexnet, "T1", _BEYOND),
    )
    both = (
        *cells("AlexNet", alexnet, ALEXNET),
        *strongest("AlexNet", alexnet),
        *cells("ResNet", resnet, RESNET50, LAST),
        *strongest("ResNet", resnet),
    )
    return report_study(result, both, claims, {"AlexNet": alexnet, "ResNet": resnet})


def one_layer(each: Retraining) -> bool:
    """Whether a layer or a block is missing, not a share of all."""
    return each.part not in {part.name for part in HORIZONTAL}


def _schemes(found: Hardness | None) -> Claim:
    """T4 against T1 in every cut that has both, by their intervals."""
    says = "With T4 there is no significant difference between the initialisation schemes."
    cells = [cell for cell in found.cells if len(cell.values) == SEEDS] if found is not None else []
    first = {(cell.part, cell.alpha): cell.mean for cell in cells if cell.procedure == "T1"}
    pairs = [
        (first[cell.part, cell.alpha], cell.mean)
        for cell in cells
        if cell.procedure in SCHEMES and (cell.part, cell.alpha) in first
    ]
    if not pairs:
        return Claim(says, "a trial is missing.", None)
    apart = sum(_apart(one, other) for one, other in pairs)
    told = f"{apart} of {len(pairs)} means lie apart from T1's; about one in ten does by chance."
    return Claim(says, told, apart <= _CHANCE * len(pairs))


def residual(result: StudyResult) -> CompletionTable:
    """Finding 2."""
    alexnet = measure_network(
        result.records, "AlexNet", lambda each: one_layer(each) and each.procedure in ("T1", "T2")
    )
    resnet = measure_network(result.records, "ResNet", lambda each: each.procedure in ("T1", "T2"))
    blocks = [] if resnet is None else [part for part in resnet.parts if part.startswith("S")]
    last = [part for part in blocks if part in ("S3 B1", "S4 B1")][-1:]
    without = [part for part in blocks if part.endswith("-W")]
    claims = (
        at_each(
            _LOW,
            "With T1, residual networks are easier to complete at α = 0.5 and 0.8.",
            lambda a: above("", "plain and residual", over_parts(alexnet, "T1", a), over_parts(resnet, "T1", a)),
        ),
        _alike(alexnet, resnet),
        at_each(
            _BELOW_ONE,
            "T2 works better than T1 on residual networks for α ≤ 0.9.",
            lambda a: above("", "T1 and T2", over_parts(resnet, "T1", a), over_parts(resnet, "T2", a)),
        ),
        at_each(
            _BELOW_ONE,
            "An intact skip connection helps T1 for α ≤ 0.9.",
            lambda a: above(
                "", "reset and intact", over_parts(resnet, "T1", a, last), over_parts(resnet, "T1", a, without)
            ),
        ),
    )
    both = (*cells("AlexNet", alexnet, ALEXNET), *cells("ResNet", resnet, RESNET50, LAST))
    return report_study(result, both, claims, {"AlexNet": alexnet, "ResNet": resnet})


def _alike(alexnet: Hardness | None, resnet: Hardness | None) -> Claim:
    says = "At α = 1 both need about the same share of the original cost (T1)."
    one, other = (over_parts(found, "T1", 1.0) for found in (alexnet, resnet))
    if one is None or other is None:
        return Claim(says, "a trial is missing.", None)
    told = f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}] and {other.value:.2f} [{other.low:.2f}, {other.high:.2f}]."
    least, most = max(one.low - other.high, other.low - one.high), max(one.high - other.low, other.high - one.low)
    return Claim(says, told, True if most <= NEAR else False if least > NEAR else None)


def parameter_trials(size: Size, seed: int) -> Sequence[Trial]:
    """AlexNet with half as many, as many and half as many more channels, by T1; and shares of every layer missing."""
    runs = seeds(seed)
    parts = (ALEXNET_PARTS[2], ALEXNET_PARTS[5]) if size == "small" else ALEXNET_PARTS
    data = {setting.data for setting in settings("AlexNet small", size)}
    of = {width: [setting for setting in settings(width, size) if setting.data in data] for width in _WIDTHS}
    return [
        *(trial for width in _WIDTHS for trial in trials(of[width], parts, ("T1",), runs)),
        *trials(of["AlexNet"], HORIZONTAL, ("T1",), runs),
    ]


def parameters(result: StudyResult) -> CompletionTable:
    """Finding 4."""
    narrow = {(each.part, each.setting) for each in retrainings(result.records, "AlexNet small")}
    data, parts = {setting for _, setting in narrow}, {part for part, _ in narrow}
    shown = parts | {part.name for part in HORIZONTAL}
    found: dict[str, Hardness | None] = {
        width: measure_network(
            result.records,
            width,
            lambda each: each.procedure == "T1" and each.setting in data and each.part in shown,
        )
        for width in _WIDTHS
    }

    def same(alpha: float) -> Claim:
        small, large = (over_parts(found[width], "T1", alpha, sorted(parts)) for width in _WIDTHS[::2])
        told = above("", "small and large", small, large).found
        return Claim("", told, None if small is None or large is None else not _apart(small, large))

    claims = [at_each(ALPHAS, "50 % fewer or more channels and neurons make no significant difference.", same)]
    rows = [cell for width in _WIDTHS for cell in cells(width, found[width], ALEXNET if width == "AlexNet" else {})]
    return report_study(result, rows, claims, found)


def _apart(one: Estimate, other: Estimate) -> bool:
    return one.high < other.low or other.high < one.low


PROCEDURE_STUDY = declare(
    "study",
    "completion-procedures",
    paper="Martic2018, finding 1 and appendices C.1 and C.2 in kind",
    does="which retraining procedure completes a network fastest, the paper's T1 to T4 and ours, T5 to T7",
)(PaperStudy(procedure_trials, procedures, sizes=("small", "medium", "paper")))
RESIDUAL_STUDY = declare(
    "study",
    "completion-residual",
    paper="Martic2018, finding 2 and figures 2, 3 and 7 in kind",
    does="how hard parts of a plain and of a residual network are to complete",
)(PaperStudy(layer_trials, residual, sizes=("small", "medium", "paper")))
PARAMETER_STUDY = declare(
    "study",
    "completion-parameters",
    paper="Martic2018, finding 4 and table 3 in kind",
    does="how hard a narrower and a wider AlexNet are to complete, and one with a share of every layer missing",
)(PaperStudy(parameter_trials, parameters, sizes=("small", "medium", "paper")))
