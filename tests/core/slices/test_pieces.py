"""Pieces of a network are the network, bit for bit: its outputs, its gradients, its training, in other hands."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from core.slices.networks import Branching, Residual, Twice, Untraced
from core.slices.split_networks import (
    CLASSES,
    IMAGE,
    STEPS,
    Convolutional,
    Drawn,
    Everywhere,
    Recurrent,
    Sliced,
    Transformer,
)
from modelkeep import Preprocessing
from modelkeep.core.errors import SliceError
from modelkeep.core.slices import Place, places
from modelkeep.core.slices.pieces import Piece, pieces
from modelkeep.zoo.architectures import small_resnet


def resnet() -> nn.Module:
    return small_resnet(IMAGE, CLASSES, blocks=1, width=4)


def time_first() -> nn.Module:
    return Transformer(batch_first=False)


SHAPES: dict[Callable[[], nn.Module], tuple[int, ...]] = {
    Convolutional: IMAGE,
    resnet: IMAGE,
    Recurrent: STEPS,
    Transformer: STEPS,
    time_first: STEPS,
    Sliced: STEPS,
    Everywhere: (6,),
    Residual: (6,),
    Branching: (6,),
}
CUTS: list[tuple[Callable[[], nn.Module], tuple[str, ...]]] = [
    (Convolutional, ("conv2",)),  # ReLU(inplace=True) right after it
    (Convolutional, ("conv1", "drop", "hidden")),
    (resnet, ("section2.block1.residual.conv1",)),  # inside a block: the skip passes around the cut
    (resnet, ("conv1", "section2.block1.residual.conv1.conv", "section3.block1.skip")),
    (Recurrent, ("first",)),
    (Recurrent, ("first", "second")),
    (Transformer, ("attention",)),
    (Transformer, ("embed", "norm1", "up")),
    (time_first, ("attention", "last")),
    (Sliced, ("drop", "getitem")),
    (Everywhere, ("layers.0", "layers.2", "layers.3")),
    (Residual, ("inner",)),
    (Branching, ("left", "relu")),
]


def made(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def inputs(make: Callable[[], nn.Module], n: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, *SHAPES[make], generator=torch.Generator().manual_seed(seed))


def cut(module: nn.Module, names: Sequence[str], probe: torch.Tensor) -> tuple[Piece, ...]:
    return pieces(module, [Place(name) for name in names], probe)


def through(parts: Sequence[Piece], x: torch.Tensor, training: bool) -> tuple[torch.Tensor, Callable[[Any], None]]:
    """The output, and how to go back, as parties do it: each has leaves of its own, made of the bytes that came."""
    passes: list[tuple[list[Any], tuple[Any, ...]]] = []
    values: tuple[Any, ...] = (x,)
    for part in parts:
        taken = [_over_the_wire(value) for value in values] if passes else list(values)
        values = part(taken, training=training)
        assert len(values) == len(part.gives(training))
        passes.append((taken, values))

    def back(slope: torch.Tensor) -> None:
        slopes: list[Any] = [slope]
        for taken, given_ in reversed(passes):
            ends = [(o, s) for o, s in zip(given_, slopes, strict=True) if s is not None and o.requires_grad]
            torch.autograd.backward([o for o, _ in ends], [s for _, s in ends])
            slopes = [_over_the_wire(t.grad) if isinstance(t, torch.Tensor) and t.is_leaf else None for t in taken]

    return values[0].detach(), back


def _over_the_wire(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        assert value is None or isinstance(value, int | float | bool)
        return value
    arrived = torch.frombuffer(bytearray(value.detach().contiguous().numpy().tobytes()), dtype=value.dtype)
    return arrived.view(value.shape).requires_grad_(value.is_floating_point())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def assert_one_step_is_the_networks_own(
    whole: nn.Module, split: nn.Module, parts: Sequence[Piece], x: torch.Tensor, training: bool
) -> None:
    whole.train(training)
    for part in parts:
        part.train(training)
    whole.zero_grad()
    split.zero_grad()
    torch.manual_seed(7)
    wanted = whole(x.clone())
    slope = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(3))
    wanted.backward(slope)
    torch.manual_seed(7)
    kept = x.clone()
    got, back = through(parts, x, training)
    back(slope)
    assert torch.equal(x, kept)
    assert same_bits(got, wanted.detach())
    for (name, a), b in zip(whole.named_parameters(), split.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        assert a.grad is None or b.grad is None or torch.equal(a.grad, b.grad), name
    for (name, mine), theirs in zip(whole.named_buffers(), split.buffers(), strict=True):
        assert same_bits(mine, theirs), name


@pytest.mark.parametrize(("make", "names"), CUTS, ids=[f"{m.__name__}-{len(n) + 1}-{n[0]}" for m, n in CUTS])
def test_pieces_are_the_network_in_both_modes_for_other_batch_sizes(
    make: Callable[[], nn.Module], names: tuple[str, ...]
) -> None:
    split = made(make)
    parts = cut(split, names, inputs(make, 3))
    whole = copy.deepcopy(split)
    assert len(parts) == len(names) + 1
    assert [part.place for part in parts] == [*map(Place, names), None]
    assert parts[0].takes(True) == ("input",)
    assert parts[-1].gives(True) == ("logits",)
    for first, second in pairwise(parts):
        assert first.gives(True) == second.takes(True)
        assert first.gives(False) == second.takes(False)
    for training in (True, False):
        for n in (2, 3, 17):
            assert_one_step_is_the_networks_own(whole, split, parts, inputs(make, n, seed=n), training)
    with torch.no_grad():  # some layers round differently without gradients: compare like with like
        x = inputs(make, 5)
        torch.backends.mha.set_fastpath_enabled(False)
        wanted = whole(x)
        torch.backends.mha.set_fastpath_enabled(True)
        assert same_bits(through(parts, x, False)[0], wanted)


@pytest.mark.parametrize("make", [Convolutional, Recurrent, Transformer, time_first, Everywhere, Residual])
def test_every_place_can_be_cut_exactly(make: Callable[[], nn.Module]) -> None:
    """Wherever the cut is, batches of another size than the probe's give the same gradients too."""
    split = made(make)
    found = 0
    for name in places(split, inputs(make, 3))[1:]:
        try:
            parts = cut(split, [name], inputs(make, 3))
        except SliceError as error:
            if any(why in str(error) for why in ("Say after which call", "nothing after it uses", "is used by")):
                continue
            raise
        found += 1
        assert_one_step_is_the_networks_own(copy.deepcopy(split), split, parts, inputs(make, 9), True)
    assert found >= 3


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("make", "names"), CUTS[1:8:2], ids=[f"{m.__name__}" for m, _ in CUTS[1:8:2]])
def test_a_training_in_pieces_ends_with_the_same_bits(
    make: Callable[[], nn.Module], names: tuple[str, ...], optimizer: str
) -> None:
    """Every party has an optimizer of its own for its own parameters."""
    whole = made(make)
    start = [p.detach().clone() for p in whole.parameters()]
    split = copy.deepcopy(whole)
    parts = cut(split, names, inputs(make, 3))
    mine = OPTIMIZERS[optimizer](whole.parameters())
    theirs = [OPTIMIZERS[optimizer](part.parameters.values()) for part in parts if part.parameters]
    whole.train()
    for part in parts:
        part.train(True)
    labels = torch.arange(6) % CLASSES
    for step in range(20):
        x = inputs(make, 6, seed=step)
        torch.manual_seed(step)
        mine.zero_grad()
        torch.autograd.backward([functional.cross_entropy(whole(x), labels)])
        mine.step()
        torch.manual_seed(step)
        for one in theirs:
            one.zero_grad()
        logits, back = through(parts, x, True)
        (slope,) = torch.autograd.grad(functional.cross_entropy(logits.requires_grad_(), labels), logits)
        back(slope)
        for one in theirs:
            one.step()
    for (name, a), b in zip(whole.state_dict().items(), split.state_dict().values(), strict=True):
        assert same_bits(a, b), name
    assert not all(map(torch.equal, start, whole.parameters()))


KINDS = ["add", "add in place", "norm", "dropout", "transposed", "mean", "plain"]


@given(
    steps=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=6),
    draw=st.data(),
    seed=st.integers(0, 2**16),
)
def test_drawn_residual_networks_are_cut_exactly(
    steps: list[tuple[str, int, int]], draw: st.DataObject, seed: int
) -> None:
    torch.manual_seed(seed)
    split = Drawn(steps)
    layers = draw.draw(st.sets(st.integers(0, len(steps) - 1), min_size=1, max_size=3))
    parts = cut(split, [f"layers.{i}" for i in sorted(layers)], torch.randn(3, 6))
    whole = copy.deepcopy(split)
    for training in (True, False):
        assert_one_step_is_the_networks_own(whole, split, parts, torch.randn(8, 6), training)


def test_each_piece_has_its_own_tensors_and_only_those() -> None:
    module = made(Convolutional)
    parts = cut(module, ("conv1", "drop"), inputs(Convolutional, 3))
    assert [list(part.parameters) for part in parts] == [
        ["conv1.weight", "conv1.bias"],
        ["norm.weight", "norm.bias"],
        ["conv2.weight", "conv2.bias", "hidden.weight", "hidden.bias", "last.weight", "last.bias"],
    ]
    assert [list(part.buffers) for part in parts] == [
        [],
        ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"],
        [],
    ]
    assert parts[1].parameters["norm.weight"] is module.get_parameter("norm.weight")
    assert parts[1].buffers["norm.running_mean"] is module.get_buffer("norm.running_mean")


def test_a_piece_does_not_keep_the_rest_of_the_network() -> None:
    module = made(resnet)
    parts = cut(module, ("section1", "section2"), inputs(resnet, 2))
    of_others = [weakref.ref(p) for i in (0, 2) for p in parts[i].parameters.values()]
    kept = parts[1]
    own = [weakref.ref(p) for p in kept.parameters.values()]
    del module, parts
    gc.collect()
    assert all(reference() is None for reference in of_others)
    assert all(reference() is not None for reference in own)
    kept([torch.zeros(2, 4, 8, 8)], training=False)


def test_the_network_is_left_as_it_was() -> None:
    class Counting(Convolutional):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.ones(CLASSES)  # a constant that torch.fx hangs on the network

    module = made(Counting)
    module.get_submodule("norm").train()
    modes = [part.training for part in module.modules()]
    state = copy.deepcopy(module.state_dict())
    attributes, drawn = set(vars(module)), torch.get_rng_state()
    cut(module, ("conv1",), inputs(Convolutional, 3))
    assert [part.training for part in module.modules()] == modes
    assert set(vars(module)) == attributes
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in module.parameters())
    assert all(same_bits(a, b) for a, b in zip(state.values(), module.state_dict().values(), strict=True))


def test_train_sets_the_modes_of_its_own_modules_alone() -> None:
    module = made(Convolutional)
    first, second = cut(module, ("drop",), inputs(Convolutional, 3))
    first.train(True)
    assert module.get_submodule("norm").training
    assert module.get_submodule("drop").training
    assert not module.get_submodule("hidden").training
    second.train(True)
    assert module.get_submodule("hidden").training


def test_sizes_cross_as_numbers_and_the_input_does_not_cross_for_its_size() -> None:
    """After `conv2` the network asks for the size of its input."""
    first, second = cut(made(Convolutional), ("conv2",), inputs(Convolutional, 3))
    assert first.gives(False) == ("conv2", "size")
    values = first([inputs(Convolutional, 5)], training=False)
    assert values[1] == 5
    assert second(values, training=False)[0].shape == (5, CLASSES)


def test_of_a_nest_only_what_is_used_crosses() -> None:
    _, second, third = cut(made(Recurrent), ("first", "second"), inputs(Recurrent, 3))
    values = second([5, torch.zeros(7, 5, 6)], training=False)  # steps first, as they lie in memory
    shapes = [tuple(v.shape) for v in values if isinstance(v, torch.Tensor)]
    assert sorted(shapes) == [(2, 5, 6), (7, 5, 6)]  # outputs and hidden states; nothing uses the cells
    assert len(third.takes(True)) == 3


def test_a_tensor_with_two_names_crosses_once() -> None:
    first, _ = cut(made(Everywhere), ("layers.1",), inputs(Everywhere, 3))
    assert [name for name in first.gives(True) if name in ("layers_0", "same")] == ["layers_0"]


def test_received_leaves_are_not_written_into() -> None:
    first, second = cut(made(Convolutional), ("conv2",), inputs(Convolutional, 3))
    sent, size = first([inputs(Convolutional, 4)], training=True)
    leaf = sent.detach().clone().requires_grad_()
    kept = leaf.detach().clone()
    (logits,) = second([leaf, size], training=True)
    torch.autograd.backward([logits], [torch.ones_like(logits)])
    assert torch.equal(leaf, kept)
    assert leaf.grad is not None


def test_preprocessing_is_a_part_of_the_first_piece() -> None:
    before = Preprocessing(mean=(0.2, 0.3), std=(0.5, 0.7)).module(IMAGE).to(torch.float32)
    module, x = made(Convolutional), inputs(Convolutional, 4)
    first, second = pieces(module, [Place("norm")], x, before=before)
    assert not any("mean" in name and "running" not in name for name in first.buffers)
    assert same_bits(second(first([x], training=False), training=False)[0].detach(), module(before(x)).detach())


def test_what_no_pass_uses_goes_to_the_last_piece() -> None:
    class Spare(Residual):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.Linear(2, 2)

    first, last = cut(made(Spare), ("inner",), inputs(Residual, 3))
    assert list(last.parameters) == ["last.weight", "last.bias", "spare.weight", "spare.bias"]
    assert list(first.parameters) == ["first.weight", "first.bias", "inner.weight", "inner.bias"]


def test_shared_parameters_are_refused() -> None:
    with pytest.raises(SliceError, match="The parameter 'scale' is used by the pieces 1 and 2, but each party must"):
        pieces(made(Twice), [Place("shared", 0)], inputs(Residual, 3))

    class Tied(Residual):
        def __init__(self) -> None:
            super().__init__()
            self.inner.weight = self.first.weight

    with pytest.raises(SliceError, match=r"'first\.weight' is used by the pieces 1 and 2"):
        cut(made(Tied), ("first",), inputs(Residual, 3))
    cut(made(Tied), ("inner",), inputs(Residual, 3))

    class SharedNorm(Residual):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(6, affine=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.last(self.norm(self.inner(self.norm(self.first(x)))))
            return result

    with pytest.raises(SliceError, match=r"The buffer 'norm\.running_mean' is used by the pieces 1 and 2"):
        cut(made(SharedNorm), ("inner",), inputs(Residual, 3))


def test_places_are_checked() -> None:
    module, x = made(Residual), inputs(Residual, 3)
    with pytest.raises(
        SliceError, match=r"Cannot cut at 'iner': there is no module of that name. Did you mean 'inner'"
    ):
        cut(module, ("iner",), x)
    with pytest.raises(SliceError, match="in the order of the run: 'first' does not come after 'inner'"):
        cut(module, ("inner", "first"), x)
    with pytest.raises(SliceError, match="'inner' does not come after 'inner'"):
        cut(module, ("inner", "inner"), x)
    with pytest.raises(SliceError, match=r"'shared' is called 2 times in one pass. Say after which call"):
        cut(made(Twice), ("shared",), x)
    with pytest.raises(SliceError, match=r"Cannot cut at 'attention.out_proj': torch.fx sees no call of it"):
        cut(made(Transformer), ("attention.out_proj",), inputs(Transformer, 3))
    with pytest.raises(SliceError, match=r"torch.fx cannot follow this network"):
        cut(made(Untraced), ("inside.inner",), x)
    first, second = cut(module, ("inner",), x)
    with pytest.raises(SliceError, match=r"This piece takes 2 values \(first, inner\). Got 1."):
        second([x], training=False)
    assert repr(first) == "Piece(until inner, 4 parameters, gives first, inner)"


def test_a_network_that_counts_draws_or_breaks_is_refused() -> None:
    class Noisy(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + torch.rand(CLASSES)

    class Averaging(Residual):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("passes", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.get_buffer("passes").add_(1)
            return super().forward(x)

    class Broken(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * float("nan")

    x = inputs(Residual, 3)
    with pytest.raises(SliceError, match=r"In train mode the pieces do not give .* the output differs"):
        cut(made(Noisy), ("inner",), x)
    with pytest.raises(SliceError, match="the buffer 'passes' differs"):
        cut(made(Averaging), ("inner",), x)
    with pytest.raises(SliceError, match="give NaN"):
        cut(made(Broken), ("inner",), x)
    with pytest.raises(SliceError, match="does not run forward and backward on the probe in train mode"):
        cut(made(resnet), ("conv1",), torch.zeros(2, 3, 8, 8))


def test_views_that_are_written_on_the_other_side_are_refused() -> None:
    """A view and its base cross as two tensors: what is written into one no longer shows in the other."""

    class Written(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            base = self.first(x)
            view = base.view(-1, 2)
            out = self.inner(base * 1.0)
            view += 1
            result: torch.Tensor = self.last(out + base)
            return result

    with pytest.raises(SliceError, match="the output differs"):
        cut(made(Written), ("inner",), inputs(Residual, 3))


def test_another_way_than_the_probes_is_refused() -> None:
    class Chunks(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = self.first(x).split(2)
            result: torch.Tensor = self.last(self.inner(x) + torch.cat(rows))
            return result

    first, second = cut(made(Chunks), ("inner",), inputs(Residual, 4))
    second(first([inputs(Residual, 3)], training=False), training=False)
    with pytest.raises(SliceError, match="took another way for these inputs than for the probe"):
        first([inputs(Residual, 6)], training=False)
