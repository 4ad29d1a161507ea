"""Whatever a classifier gives is read as logits, exactly where it can be; what is no classifier is refused by name."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from core.output_networks import MANY, ONE, Net, Way
from modelkeep import Model
from modelkeep.core.adapter import Adapter
from modelkeep.core.errors import ModelError
from modelkeep.core.outputs import Output

X = torch.rand(7, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", MANY)
def test_probabilities_are_the_modules_own(kind: str) -> None:
    way, output = MANY[kind]
    module = Net(way)
    model = Model(module, input_shape=(4,), classes=3)
    found = model.module.adapted_output if isinstance(model.module, Adapter) else Output()
    assert found == output
    logits = module.bare(X).detach()
    torch.testing.assert_close(model.probs(X), logits.softmax(1))
    assert bool(model.notes) == (kind == "by hand")
    if kind != "by hand":
        assert torch.equal(model.logits(X), logits)  # undone to the last bit


@pytest.mark.parametrize("kind", MANY)
def test_gradients_are_those_before_the_head(kind: str) -> None:
    module = Net(MANY[kind][0])
    model = Model(module, input_shape=(4,), classes=3)
    x, again = (X.clone().requires_grad_() for _ in range(2))
    (got,) = torch.autograd.grad(functional.cross_entropy(model.forward(x), torch.arange(7) % 3), x)
    (wanted,) = torch.autograd.grad(functional.cross_entropy(module.bare(again), torch.arange(7) % 3), again)
    if kind == "by hand":
        torch.testing.assert_close(got, wanted)
    else:
        assert torch.equal(got, wanted)


def test_a_sure_softmax_keeps_its_gradient() -> None:
    """At logits of ±200 every probability is 0 or 1, and the gradient through the softmax is 0."""
    module = Net(lambda z: (200 * z).softmax(1))
    model = Model(module, input_shape=(4,), classes=3)
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model.forward(x)[:, 0].sum(), x)
    assert (gradient.abs().sum(1) > 1).all()


@pytest.mark.parametrize("kind", ONE)
def test_one_number_stands_for_two_classes(kind: str) -> None:
    way, output = ONE[kind]
    module = Net(way, classes=1)
    model = Model(module, input_shape=(4,), classes=("no", "yes"))
    assert isinstance(model.module, Adapter)
    assert model.module.adapted_output == output
    logit = module.bare(X).detach()[:, 0]
    torch.testing.assert_close(model.probs(X)[:, 1], logit.sigmoid())
    if output.undone or output.head == "none":
        assert torch.equal(model.logits(X), torch.stack([torch.zeros(7), logit], dim=1))
    assert torch.equal(model.predict(X), (logit > 0).long())


REFUSED: dict[str, tuple[Way, int, str]] = {
    "regression": (lambda z: z[:, 0], 3, "is a regression: it gives one number per example"),
    "multi-label": (lambda z: z.sigmoid(), 3, "is a multi-label classifier: it gives 3 sigmoids"),
    "detection": (lambda z: [{"boxes": z, "labels": z}], 3, "detects objects: it gives boxes"),
    "generation": (
        lambda z: z[:, None].expand(-1, 5, -1),
        3,
        "generates or tags a sequence: it gives 3 numbers for each",
    ),
    "segmentation": (lambda z: z[:, :, None, None].expand(-1, -1, 8, 8), 3, "segments pictures"),
    "encoder": (lambda z: {"last_hidden_state": z, "pooler_output": z}, 3, "encoder without a classification head"),
    "labels": (lambda z: z.argmax(1), 3, r"gives torch.int64, not logits.*Model\.answering"),
    "nothing": (lambda z: {"score": z}, 3, "gives a dict with score, in which there are no logits"),
}


@pytest.mark.parametrize("task", REFUSED)
def test_what_is_no_classifier_is_refused_by_name(task: str) -> None:
    way, classes, message = REFUSED[task]
    with pytest.raises(ModelError, match=message):
        Model(Net(way), input_shape=(4,), classes=classes)


def test_finding_out_leaves_the_random_state_and_the_module_alone() -> None:
    module = Net(lambda z: functional.dropout(z, training=True).softmax(1))
    state = torch.get_rng_state()
    kept = {name: weight.clone() for name, weight in module.state_dict().items()}
    model = Model(module, input_shape=(4,), classes=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: torch.equal(weight, kept[name]) for name, weight in module.state_dict().items()} == dict.fromkeys(
        kept, True
    )
    assert not any(weight.grad is not None for weight in model.module.parameters())


def test_a_way_that_differs_from_the_probes_is_an_error() -> None:
    model = Model(Net(lambda z: z.softmax(1) if len(z) == 2 else z.exp()), input_shape=(4,), classes=3)
    with pytest.raises(ModelError, match="took another way than on the probe"):
        model.predict(X)
