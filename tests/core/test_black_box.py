"""What only answers is attacked and stolen by its answers; what needs more says so in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import nn

from modelkeep import Data, Labels, Model, Scores, Weights
from modelkeep.attack import PGD, Boundary, Square
from modelkeep.audit import Settings, audit
from modelkeep.core.black_box import gives_enough
from modelkeep.core.errors import AccessError, InputError, ModelError
from modelkeep.core.registry import declarations, families
from modelkeep.extract import Extract, Knockoff
from modelkeep.harden import PGDTraining, harden
from modelkeep.training import Recipe, cross_entropy, fit

X, Y = load_iris(return_X_y=True)
NAMES = ("setosa", "versicolor", "virginica")
DATA = Data(torch.tensor(X[::4], dtype=torch.float32), torch.tensor(Y[::4]), NAMES)


def iris_pipeline() -> Pipeline:
    """A fitted pipeline; a factory for `Model.load`."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(X, np.array(NAMES)[Y])


@pytest.mark.parametrize(
    ("estimator", "access"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), "scores"),
        (KNeighborsClassifier(), "scores"),
        (LinearSVC(), "scores"),
        (RidgeClassifier(), "scores"),
        (make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")), "labels"),
    ],
    ids=lambda value: type(value[-1] if hasattr(value, "steps") else value).__name__,
)
def test_an_estimator_answers_as_it_does(estimator: Any, access: str) -> None:
    estimator.fit(X, np.array(NAMES)[Y])
    model = Model.answering(estimator)
    assert (model.access, model.classes, model.input_shape, model.bounds) == (access, NAMES, (4,), None)
    told = np.asarray(NAMES)[model.predict(DATA.x).numpy()]
    assert (told == estimator.predict(DATA.x.numpy())).all()
    if hasattr(estimator, "predict_proba") and access == "scores":
        wanted = estimator.predict_proba(DATA.x.numpy())
        np.testing.assert_allclose(model.probs(DATA.x).numpy(), wanted, atol=1e-6)


def test_two_classes_have_one_margin() -> None:
    two = Y < 2
    estimator = LinearSVC().fit(X[two], Y[two])
    model = Model.answering(estimator, classes=("no", "yes"))
    margins = estimator.decision_function(X[two])
    torch.testing.assert_close(
        model.logits(torch.tensor(X[two], dtype=torch.float32))[:, 1].double(),
        torch.tensor(margins),
        atol=1e-5,
        rtol=1e-5,
    )


def _linear(x: NDArray[np.float32]) -> Any:
    return np.asarray(x) @ np.array([[2.0, -1.0], [-1.0, 2.0]])


FUNCTIONS: dict[str, Any] = {
    "logits": _linear,
    "probabilities": lambda x: torch.tensor(_linear(x)).softmax(1).numpy(),
    "tensor": lambda x: torch.tensor(_linear(x)),
    "one logit": lambda x: _linear(x)[:, 1] - _linear(x)[:, 0],
    "one probability": lambda x: 1 / (1 + np.exp(_linear(x)[:, 0] - _linear(x)[:, 1])),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_scores_of_every_kind_become_the_same_probabilities(kind: str) -> None:
    model = Model.answering(FUNCTIONS[kind], input_shape=(2,), classes=2, bounds=(-2.0, 2.0))
    x = 4 * torch.rand(50, 2) - 2
    torch.testing.assert_close(
        model.probs(x), torch.tensor(_linear(x.numpy())).softmax(1).float(), atol=1e-5, rtol=1e-4
    )
    assert model.access == "scores"


def test_labels_give_no_scores() -> None:
    model = Model.answering(lambda x: _linear(x).argmax(1), input_shape=(2,), classes=("a", "b"), gives="labels")
    x = torch.rand(9, 2)
    assert torch.equal(model.predict(x), torch.tensor(_linear(x.numpy()).argmax(1)))
    assert Labels(model).labels(x).shape == (9,)
    with pytest.raises(AccessError, match=r"A view of the scores needs a score for every class, but .*labels"):
        Scores(model)
    with pytest.raises(AccessError, match=r"Square needs a score for every class.*these work with it: boundary"):
        Square(radius=0.1)(model, Data(x, model.predict(x), model.classes))


def test_every_method_that_needs_more_says_so() -> None:
    model = Model.answering(iris_pipeline())
    checked = 0
    for family in families():
        for each in declarations(family).values():
            kind = each.load() if each.access else None
            if not isinstance(kind, type) or not hasattr(kind.__call__, "checks_access"):
                continue
            method: Any = object.__new__(kind)  # without settings: the check comes before all else
            if gives_enough(model.access, each.access):  # type: ignore[arg-type]
                continue
            with pytest.raises(AccessError, match=f"{kind.__name__} needs the weights of the model, but this"):
                method(model, DATA)
            with pytest.raises(AccessError, match="only answers with scores"):
                method(model=model, data=DATA)
            checked += 1
    assert checked >= 35


def test_every_attack_that_needs_no_weights_takes_a_pipeline() -> None:
    model = Model.answering(iris_pipeline())
    taken = []
    for each in declarations("attack").values():
        if each.access == "weights" or each.name == "one-pixel":  # a pixel is of a picture
            continue
        kind = each.load()
        if kind.of_texts:
            continue
        found = kind(**kind.cheap)(model, DATA.first(6), seed=0)
        assert len(found.after) == 6
        taken.append(each.name)
    assert {"square", "boundary", "transfer"} <= set(taken)


def test_square_and_boundary_find_what_is_near() -> None:
    model = Model.answering(iris_pipeline())
    square = Square(radius=2.0, queries=200)(model, DATA, seed=0)
    assert (square.after != DATA.y).float().mean() > 0.5
    boundary = Boundary(queries=200)(model, DATA.first(5), seed=0)
    assert torch.equal(boundary.after, model.predict(boundary.adversarial))


def test_a_pipeline_is_stolen_by_its_scores() -> None:
    model = Model.answering(iris_pipeline())
    pool = Data(torch.tensor(X[1::4], dtype=torch.float32), torch.tensor(Y[1::4]), NAMES)
    stolen = Extract(pool, Knockoff(38), recipe=Recipe(epochs=300))(Scores(model), DATA, seed=0)
    assert stolen.fidelity.value > 0.8


def test_pgd_says_what_it_misses() -> None:
    model = Model.answering(iris_pipeline())
    with pytest.raises(AccessError) as told:
        PGD(radius=0.1)(model, DATA)
    working = [name for name, each in declarations("attack").items() if each.access in ("scores", "labels")]
    assert {"boundary", "one-pixel", "square", "transfer"} <= set(working)
    assert str(told.value) == (
        "PGD needs the weights of the model, but this model only answers with scores. Instead, of the family 'attack', "
        f"these work with it: {', '.join(working)}."
    )
    for refused in (
        lambda: Weights(model),
        lambda: model.slice("input"),
        lambda: model.slices(),
        lambda: model.save("m.safetensors"),
    ):
        with pytest.raises(AccessError, match="needs the weights of the model"):
            refused()


def test_an_audit_says_what_it_could_not_check() -> None:
    model = Model.answering(iris_pipeline())
    found = audit(model, DATA, Settings(examples=20))
    skipped = {finding.id: finding.measured for finding in found.findings if finding.skipped}
    for check in ("robustness", "certification", "influence"):
        assert "needs the weights of the model, which only answers with scores" in skipped[f"{check}.not-run"]
    asked = audit(model, DATA, Settings(examples=20, checks=("robustness",)))
    assert [finding.id for finding in asked.findings] == ["robustness.not-run"]
    assert asked.verdict.line.startswith("Nothing can be said.")


def test_a_factory_may_give_an_estimator() -> None:
    model = Model.load("core.test_black_box:iris_pipeline")
    assert (model.access, model.classes, model.input_shape) == ("scores", NAMES, (4,))
    assert torch.equal(model.predict(DATA.x), Model.answering(iris_pipeline()).predict(DATA.x))


def test_column_names_reach_the_estimator() -> None:
    pandas = pytest.importorskip("pandas")
    columns = ["a", "b", "c", "d"]
    estimator = LogisticRegression(max_iter=500).fit(pandas.DataFrame(X, columns=columns), Y)
    model = Model.answering(estimator)  # a warning would be an error here
    assert (
        model.predict(DATA.x).tolist() == estimator.predict(pandas.DataFrame(DATA.x.numpy(), columns=columns)).tolist()
    )


@pytest.mark.parametrize(
    ("thing", "named", "error", "message"),
    [
        (LinearRegression().fit(X, Y), {}, ModelError, "is a regression"),
        (LogisticRegression(), {}, ModelError, "is not fitted yet"),
        (lambda x: x, {"classes": 2}, InputError, r"Add input_shape=…"),
        (
            lambda x: x[:, :1],
            {"classes": 3, "input_shape": (4,)},
            ModelError,
            r"scores of shape \(32, 3\).*Got float32",
        ),
        (lambda x: x, {"classes": 4, "input_shape": (4,), "gives": "labels"}, ModelError, "a label in 0..3"),
        (lambda x: x, {"classes": 4, "input_shape": (4,), "gives": "words"}, InputError, "'logits' or 'labels'"),
        (3, {"classes": 4, "input_shape": (4,)}, ModelError, "a function of an array"),
    ],
)
def test_what_cannot_answer_is_refused(thing: Any, named: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Model.answering(thing, **named)


def test_a_wrapped_black_box_is_one_too() -> None:
    model = Model.answering(_linear, input_shape=(2,), classes=2)
    wrapped = Model(nn.Sequential(nn.Identity(), model.module), input_shape=(2,), classes=2)
    assert wrapped.access == "scores"
    assert Model(nn.Linear(2, 2), input_shape=(2,), classes=2).access == "weights"


def _two(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logits that lie on the simplex for inputs within 0 and 1, and nowhere else."""
    return np.stack([x[:, 0], 1 - x[:, 0]], axis=1)


def test_an_answer_that_contradicts_what_was_found_is_refused() -> None:
    found = Model.answering(_two, input_shape=(1,), classes=2, bounds=(0, 1))
    torch.testing.assert_close(found.probs(torch.tensor([[0.3]])), torch.tensor([[0.3, 0.7]]))
    with pytest.raises(
        ModelError, match=r"looked like probabilities, but row 1 of 2 is \[3.0, -2.0\]. .* gives=\"logits\""
    ):
        found.module(torch.tensor([[0.5], [3.0]]))
    single = Model.answering(lambda x: x[:, 0], input_shape=(1,), classes=2, bounds=(0, 1))
    with pytest.raises(ModelError, match="looked like probabilities"):
        single.module(torch.tensor([[-0.5]]))


def test_the_owner_says_what_the_scores_are() -> None:
    logits = Model.answering(_two, input_shape=(1,), classes=2, bounds=(0, 1), gives="logits")
    x = torch.tensor([[0.3], [0.9]])
    torch.testing.assert_close(logits.probs(x), torch.tensor([[0.3, 0.7], [0.9, 0.1]]).softmax(dim=1))
    assert logits.access == "scores"
    with pytest.raises(ModelError, match="were said to be probabilities"):
        Model.answering(lambda x: 5 * _two(x), input_shape=(1,), classes=2, bounds=(0, 1), gives="probabilities")
    wrong: Any = "score"
    with pytest.raises(InputError, match="must be 'scores', 'probabilities', 'logits' or 'labels'"):
        Model.answering(_two, input_shape=(1,), classes=2, gives=wrong)


def test_training_and_hardening_say_that_they_need_the_weights() -> None:
    model = Model.answering(_two, input_shape=(1,), classes=2, bounds=(0, 1))
    data = Data(torch.rand(8, 1), torch.zeros(8, dtype=torch.int64), model.classes)
    with pytest.raises(AccessError, match="Training needs the weights of the model, but this model only answers"):
        fit(model, data, cross_entropy, Recipe(epochs=1))
    with pytest.raises(AccessError, match="Hardening needs the weights of the model, but this model only answers"):
        harden(model, data, PGDTraining(radius=0.1), Recipe(epochs=1), held_out=data, attack=PGD(radius=0.1))
