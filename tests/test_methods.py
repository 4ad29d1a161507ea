"""Every method keeps the contract.

The methods of the families in FAMILIES come from the registry. Each class says with which settings a test runs it in a
moment: `cheap: ClassVar[dict[str, Any]] = {"steps": 3}`. So a new method is one file and one test of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from core.contract.little import examples, images, table
from elsewhere import CUDA, Elsewhere
from modelkeep import Data, Model, Result
from modelkeep.attack import APGD, CW, FMN, PGD, HotFlip, Substitution, Transfer, robustness_curve
from modelkeep.bias import ExpertMitigation, MeasureAmplification, MeasureAsymmetry, ParityMitigation, SparseMitigation
from modelkeep.certify import Certify, LipschitzSearch, RelaxedTopK, Smooth
from modelkeep.core.access import Scores
from modelkeep.core.contract import Method, check_method
from modelkeep.core.registry import Declaration, declarations
from modelkeep.explain import (
    TCAV,
    ClassScore,
    Concept,
    Explained,
    ExplainUnits,
    FindExemplars,
    FindShortcuts,
    Gaussian,
    Influence,
    IsolationTest,
    Line,
    MeasureExperts,
    MeasureSoundness,
    OcclusionTest,
    Unit,
    Visualise,
    learn_concept,
    measure_localisation,
)
from modelkeep.extract import Extract, Guarded, Knockoff, PartialBayes
from modelkeep.govern.exposure import infer_labels, invert
from modelkeep.guard.defences import ModelGuardS
from modelkeep.harden import BitDepth, Detector, evade, feature_squeezing, judge, score
from modelkeep.training import Recipe
from texts import lstm, sentences

# The families whose methods are taken from the registry, each with the `cheap` settings of its class: a new method of
# these families needs no line here.
FAMILIES = ("attack",)


def cheap(declared: Declaration) -> Method:
    """The method with its cheap settings; it is imported when it runs."""

    def run(model: Model, data: Data, seed: int) -> Result:
        kind = declared.load()
        result = kind(**kind.cheap)(model, data, seed=seed)
        assert isinstance(result, Result)
        return result

    return run


DECLARED: dict[str, Method] = {
    name: cheap(declared)
    for family in FAMILIES
    for name, declared in declarations(family).items()
    if not declared.home.startswith("modelkeep.attack.text.")
}
# Everything else gets a line here, with its settings bound, so that it takes the model, the data and the seed: other
# settings of a declared method that run other code, and functions. Both models have a module called "hidden"; torch.fx
# can trace the one for images, and cannot trace the one for tables.
METHODS: dict[str, Method] = {
    **DECLARED,
    "pgd, l2": lambda m, d, seed: PGD(norm="l2", radius=0.5, steps=3, batch_size=4)(m, d, seed=seed),
    "apgd, l1": lambda m, d, seed: APGD(norm="l1", radius=0.5, steps=4)(m, d, seed=seed),
    "fmn, l0": lambda m, d, seed: FMN(norm="l0", steps=4)(m, d, seed=seed),
    "cw, linf": lambda m, d, seed: CW(norm="linf", steps=3, binary_search_steps=2)(m, d, seed=seed),
    "cw, l0": lambda m, d, seed: CW(norm="l0", steps=3, binary_search_steps=2)(m, d, seed=seed),
    "transfer, labels": lambda m, d, seed: Transfer(
        answers="labels", norm="l2", radius=0.1, steps=3, recipe=Recipe(steps=3)
    )(m, d, seed=seed),
    "robustness curve": lambda m, d, seed: robustness_curve(m, d, PGD(radius=0.2, steps=3), [0.1, 0.2], seed=seed),
    "score": lambda m, d, seed: score(m, m, d, attack=PGD(radius=0.1), seed=seed),
    "judge": lambda m, d, seed: judge(squeezed(m, d), PGD(radius=1.0, steps=3)(m, d, seed=seed)),
    "evade": lambda m, d, seed: evade(squeezed(m, d), d, radius=0.1, steps=3, targets=1, seed=seed),
    "influence, input": lambda m, d, seed: Influence(distribution=Gaussian(0.1, count=3))(m, d, seed=seed),
    "influence, hidden": lambda m, d, seed: Influence(slice="hidden", distribution=Line(0.0, count=3))(m, d, seed=seed),
    "occlusion test": lambda m, d, seed: OcclusionTest(steps=3)(m, integrated(m, d, seed), seed=seed),
    "isolation test": lambda m, d, seed: IsolationTest()(m, Influence(slice="hidden")(m, d, seed=seed), seed=seed),
    "localisation": lambda m, d, seed: measure_localisation(found := integrated(m, d, seed), half(found), seed=seed),
    "experts": lambda m, d, seed: MeasureExperts(slice="hidden", name=d.classes[0], keep=(2, 4))(m, d, seed=seed),
    "soundness": lambda m, d, seed: MeasureSoundness(criterion=lambda found: half(found).flatten(1)[:, 0])(
        m, d, seed=seed
    ),
    "shortcuts": lambda m, d, seed: FindShortcuts(points=2)(m, d, seed=seed),
    "exemplars": lambda m, d, seed: FindExemplars(slice="hidden", units=[0, 3], count=2)(m, d, seed=seed),
    "visualise": lambda m, d, seed: Visualise(quantity=Unit("hidden", 3), steps=3)(m, data=d, seed=seed),
    "concept": lambda m, d, seed: learn_concept(m, d, 1 - examples(m).x, slice="hidden", name="dark", seed=seed),
    "concept sensitivity": lambda m, d, seed: TCAV(
        concepts=[dark(m, seed)], quantity=ClassScore(d.classes[0]), permutations=19
    )(m, d, seed=seed),
    "explain unit": lambda m, d, seed: ExplainUnits(
        slice="hidden", units=2, concepts=[dark(m, seed)], count=2, steps=2
    )(m, d, seed=seed),
    "amplification": lambda m, d, seed: MeasureAmplification()(m, d, seed=seed),
    "amplification, hidden": lambda m, d, seed: MeasureAmplification(slice="hidden")(m, d, seed=seed),
    "asymmetry": lambda m, d, seed: MeasureAsymmetry()(m, d, seed=seed),
    "asymmetry, hidden": lambda m, d, seed: MeasureAsymmetry(slice="hidden")(m, d, seed=seed),
    "mitigate, l1": lambda m, d, seed: SparseMitigation(strength=0.1)(m, d, seed=seed),
    "smooth": lambda m, d, seed: Smooth(sigma=0.1, samples=20)(m, d, seed=seed),
    "extract": lambda m, d, seed: Extract(d, Knockoff(len(d)), recipe=Recipe(epochs=1), clean=m)(
        Scores(m), d, seed=seed
    ),
    "extract, guarded": lambda m, d, seed: Extract(
        d, Knockoff(len(d)), PartialBayes("answers"), recipe=Recipe(epochs=1), clean=m
    )(Guarded(m, ModelGuardS(0.5)), d, seed=seed),
    "lipschitz below": lambda m, d, seed: LipschitzSearch(local_radius=0.1, steps=3)(m, d, seed=seed),
}
# These write the network down or split it, so torch.fx must be able to follow it.
TRACED_METHODS: dict[str, Method] = {
    "certify": lambda m, d, seed: Certify(radius=0.1, guarantee=RelaxedTopK(1))(m, d, seed=seed),
    "certify, linf": lambda m, d, seed: Certify(radius=0.01, norm="linf")(m, d, seed=seed),
    "invert": lambda m, d, seed: invert(m, d, slice="hidden", steps=3, seed=seed),
    "invert, decoder": lambda m, d, seed: invert(
        m, d, slice="rectifier", attacker="decoder", recipe=Recipe(steps=3), seed=seed
    ),
    "infer labels": lambda m, d, seed: infer_labels(m, d, slice="hidden", seed=seed),
    "infer labels, surrogate": lambda m, d, seed: infer_labels(
        m, d, slice="hidden", attack="surrogate", known=0, seed=seed
    ),
}
# These exchange words.
TEXT_METHODS: dict[str, Method] = {
    "hotflip": lambda m, d, seed: HotFlip(**HotFlip.cheap)(m, d, seed=seed),
    "substitution": lambda m, d, seed: Substitution(words=2, synonyms={"good": ("bad",)})(m, d, seed=seed),
}
# These are defined for two classes.
BINARY_METHODS: dict[str, Method] = {
    "mitigate, experts": lambda m, d, seed: ExpertMitigation()(m, d, seed=seed),
    "mitigate, parity": lambda m, d, seed: ParityMitigation()(m, d, seed=seed),
}


def squeezed(model: Model, data: Data) -> Detector:
    return feature_squeezing(model, data, [BitDepth(2)])


def integrated(model: Model, data: Data, seed: int) -> Explained:
    return Influence(distribution=Line(0.0, count=2))(model, data, seed=seed)


def dark(model: Model, seed: int) -> Concept:
    x = examples(model).x
    return learn_concept(model, x, 1 - x, slice="hidden", name="dark", seed=seed)


def half(explained: Explained) -> torch.Tensor:
    """Masks that are True in the first half of each explanation's last dimension."""
    shape = explained.influence.sum(dim=1).shape if explained.influence.ndim == 4 else explained.influence.shape
    return (torch.arange(shape[-1]) < shape[-1] / 2).expand(shape)


@pytest.mark.parametrize("make", [images, table])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_the_contract(name: str, make: Callable[[], Model]) -> None:
    model = make()
    report = check_method(METHODS[name], model, examples(model))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}


@pytest.mark.parametrize("make", [lambda: images(2), table])
@pytest.mark.parametrize("name", BINARY_METHODS)
def test_every_binary_method_keeps_the_contract(name: str, make: Callable[[], Model]) -> None:
    model = make()
    report = check_method(BINARY_METHODS[name], model, examples(model))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}


@pytest.mark.parametrize("name", TEXT_METHODS)
def test_every_method_of_texts_keeps_the_contract(name: str) -> None:
    model = lstm()
    report = check_method(TEXT_METHODS[name], model, sentences(model))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}


@pytest.mark.parametrize("name", TRACED_METHODS)
def test_every_traced_method_keeps_the_contract(name: str) -> None:
    model = images()
    report = check_method(TRACED_METHODS[name], model, examples(model))
    assert set(report.not_checked.values()) <= {"there is no CUDA device"}


def kept_on_cuda(model: Model, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method of a model that is said to be on CUDA leaves nothing behind on the CPU; real CUDA is not needed."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # a certificate insists on it
    with Elsewhere() as place:
        there = Model.from_card(copy.deepcopy(model.module), model.card, CUDA)
        assert isinstance(method(there, examples(model), 0), Result)
        assert all(place.has(parameter) for parameter in there.module.parameters())


@pytest.mark.parametrize("name", [*METHODS, *TRACED_METHODS])
def test_every_method_works_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_on_cuda(images(), {**METHODS, **TRACED_METHODS}[name], monkeypatch)


@pytest.mark.parametrize("name", BINARY_METHODS)
def test_every_binary_method_works_elsewhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_on_cuda(images(2), BINARY_METHODS[name], monkeypatch)
