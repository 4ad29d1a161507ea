"""Views give what their name says and no more, and count every example that is asked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from modelkeep import Labels, Model, Scores, Weights
from modelkeep.core.errors import InputError, QueryBudget

VIEWS = [Labels, Scores, Weights]


@pytest.mark.parametrize("kind", VIEWS)
def test_labels_are_the_models(kind: type[Labels], small_cnn: Model) -> None:
    x = torch.rand(11, 1, 8, 8)
    view = kind(small_cnn, chunk=4)
    assert torch.equal(view.labels(x), small_cnn.predict(x))
    assert view.queries == 11
    view.labels(x[:2])
    assert view.queries == 13


@pytest.mark.parametrize("kind", VIEWS)
def test_views_carry_what_anybody_knows(kind: type[Labels], small_cnn: Model) -> None:
    view = kind(small_cnn)
    assert view.input_shape == (1, 8, 8)
    assert view.classes == small_cnn.classes
    assert view.bounds == (0.0, 1.0)
    assert (view.dtype, view.device) == (torch.float32, torch.device("cpu"))


def test_probs_are_the_models(small_cnn: Model) -> None:
    x = torch.rand(11, 1, 8, 8)
    view = Scores(small_cnn, chunk=5)
    torch.testing.assert_close(view.probs(x), small_cnn.probs(x))
    assert view.queries == 11


def test_labels_do_not_tie_where_probabilities_do() -> None:
    with torch.no_grad():
        module = nn.Linear(2, 2, bias=False)
        module.weight.copy_(torch.eye(2))
    model = Model(module, input_shape=(2,), classes=2)
    x = torch.tensor([[0.0, 1e-9]])
    assert model.probs(x)[0, 0] == model.probs(x)[0, 1]
    assert Labels(model).labels(x).item() == 1


def test_no_public_path_to_the_module(small_cnn: Model) -> None:
    for view in (Labels(small_cnn), Scores(small_cnn)):
        for name in dir(view):
            if not name.startswith("_"):
                assert not isinstance(getattr(view, name), (Model, nn.Module)), name
    assert not hasattr(Labels(small_cnn), "probs")
    assert not hasattr(Scores(small_cnn), "model")


def test_weights_give_the_model_and_gradients(small_cnn: Model) -> None:
    view = Weights(small_cnn)
    assert view.model is small_cnn
    x = torch.rand(3, 1, 8, 8, requires_grad=True)
    view.forward(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert view.queries == 3


def test_budget_is_refused_before_it_is_exceeded(small_cnn: Model) -> None:
    view = Scores(small_cnn, budget=10)
    view.probs(torch.rand(6, 1, 8, 8))
    with pytest.raises(QueryBudget, match="budget is 10 queries: 6 are spent, and 5 more"):
        view.probs(torch.rand(5, 1, 8, 8))
    assert view.queries == 6
    view.labels(torch.rand(4, 1, 8, 8))
    assert view.queries == 10
    weights = Weights(small_cnn, budget=0)
    with pytest.raises(QueryBudget):
        weights.forward(torch.rand(1, 1, 8, 8))


def test_a_wrong_input_is_refused_and_not_counted(small_cnn: Model) -> None:
    view = Labels(small_cnn)
    with pytest.raises(InputError):
        view.labels(torch.full((2, 1, 8, 8), torch.nan))
    assert view.queries == 0


def test_parameters_are_checked(small_cnn: Model) -> None:
    with pytest.raises(InputError, match="'budget' parameter of Scores"):
        Scores(small_cnn, budget=-1)
    with pytest.raises(InputError, match="'chunk' parameter of Labels"):
        Labels(small_cnn, chunk=0)


def test_repr_says_how_many_were_asked(small_cnn: Model) -> None:
    view = Labels(small_cnn, budget=9)
    view.labels(torch.rand(2, 1, 8, 8))
    assert repr(view) == "Labels(2 of 9 queries)"
    assert repr(Labels(small_cnn)) == "Labels(0 queries)"
