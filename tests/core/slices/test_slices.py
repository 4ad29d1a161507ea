"""A slice is exact, carries what passes around it, and knows the parameters of both sides."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from core.slices.networks import CLASSES, WIDTH, Attention, Branching, Drawn, Recurrent, Residual, Twice, Untraced
from modelkeep import Model, Preprocessing
from modelkeep.core.errors import InputError, SliceError
from modelkeep.core.slices import Place

NETWORKS = [Residual, Branching, Twice, Recurrent, Attention, Untraced]


def model_of(module: nn.Module) -> Model:
    preprocessing = Preprocessing(mean=(0.25,), std=(0.5,))
    return Model(module, input_shape=(WIDTH,), classes=CLASSES, bounds=(-1, 1), preprocessing=preprocessing)


def inputs(n: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(n, WIDTH, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def every_slice(model: Model) -> list[tuple[str, int | None]]:
    """All places, and all calls of those that are called more than once."""
    found: list[tuple[str, int | None]] = []
    for name in model.slices():
        try:
            model.slice(name)
            found.append((name, None))
        except SliceError as error:
            if "Say after which call" in str(error):
                found += [(name, 0), (name, 1)]
            elif "nothing after it uses" not in str(error):
                raise
    return found


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("n", [1, 5])
def test_every_slice_is_exact_with_and_without_gradients(network: type[nn.Module], n: int) -> None:
    torch.manual_seed(0)
    model, x = model_of(network()), inputs(n)
    places = every_slice(model)
    assert len(places) > 3
    for name, call in places:
        for skip in ("carry", "hold"):
            s = model.slice(name, call=call, skip=skip)
            assert torch.equal(s.g(s.h(x)), model.forward(x)), s
            with torch.no_grad():  # torch's LSTM rounds differently without gradients: compare like with like
                assert torch.equal(s.g(s.h(x)), model.logits(x)), s


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_through_the_cut_are_the_networks_own(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = model_of(network())
    x = inputs(3).requires_grad_()
    wanted = torch.autograd.grad(model.forward(x).square().sum(), [x, *_used(model, x)])
    for name, call in every_slice(model):
        s = model.slice(name, call=call)
        got = torch.autograd.grad(s.g(s.h(x)).square().sum(), [x, *_used(model, x)])
        for a, b in zip(got, wanted, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_program_can_end_at_a_later_place(network: type[nn.Module]) -> None:
    """From every place until every later one: the same value and the same gradients as of a cut at the end alone."""
    torch.manual_seed(0)
    model = model_of(network())
    x = inputs(3).requires_grad_()
    places = every_slice(model)
    reached = 0
    for end, end_call in places[1:]:
        wanted = model.slice(end, call=end_call).h(x).value
        slope = torch.autograd.grad(wanted.square().sum(), x, retain_graph=True)[0]
        for start, call in places:
            try:
                s = model.slice(start, call=call, until=Place(end, end_call))
            except SliceError as error:
                if any(why in str(error) for why in ("is computed first", "does not depend", "no module of that")):
                    continue
                raise
            got = s.g(s.h(x))
            assert torch.equal(got, wanted), s
            torch.testing.assert_close(torch.autograd.grad(got.square().sum(), x)[0], slope)
            assert set(s.parameters_h) | set(s.parameters_g) == set(model.slice(end, call=end_call).parameters_h)
            reached += 1
    assert reached >= len(places)


def test_a_cut_that_was_made_before_is_still_right_after_changes() -> None:
    """Traces are kept. New weights, a part put in another's place, other code, a copy: never the old network."""

    class Switched(Residual):
        factor = 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.factor

    torch.manual_seed(0)
    network = Switched()
    model, x = model_of(network), inputs(3)

    def exact(model: Model) -> bool:
        s = model.slice("inner")
        parameters = {id(p) for p in model.module.parameters()}
        mine = all(id(p) in parameters for p in (*s.parameters_h.values(), *s.parameters_g.values()))
        return mine and s.traced and torch.equal(s.g(s.h(x)), model.forward(x))

    assert exact(model)
    with torch.no_grad():
        network.last.weight += 1
    assert exact(model)
    network.last = copy.deepcopy(network.last)  # the same numbers, but other parameters
    assert exact(model)
    network.relu = nn.Tanh().eval()  # type: ignore[assignment]
    assert exact(model)
    other = copy.deepcopy(model)
    assert exact(other)
    assert exact(model)
    network.factor = 3  # a number that the trace had written down
    assert exact(model)


def test_a_kept_trace_does_not_keep_the_network() -> None:
    model = model_of(Residual())
    model.slice("inner")
    gone = weakref.ref(model.module)
    del model
    gc.collect()
    assert gone() is None


def test_a_program_cannot_end_before_it_begins() -> None:
    model = model_of(Residual())
    with pytest.raises(SliceError, match="Cannot go from 'last' until 'inner': 'inner' is computed first"):
        model.slice("last", until="inner")
    with pytest.raises(SliceError, match="Cannot go from 'left' until 'right': 'right' does not depend on 'left'"):
        model_of(Branching()).slice("left", until="right")
    hooked = model_of(Untraced())
    with pytest.raises(SliceError, match=r"'inside\.first' is computed first"):
        hooked.slice("inside.inner", until="inside.first")
    with pytest.raises(SliceError, match="Say after which call"):
        model_of(Twice()).slice("input", until="shared")
    assert "until inner" in repr(model.slice("first", until="inner"))


def _used(model: Model, x: torch.Tensor) -> list[nn.Parameter]:
    parameters = list(model.module.parameters())
    gradients = torch.autograd.grad(model.forward(x).sum(), parameters, allow_unused=True)
    return [p for p, g in zip(parameters, gradients, strict=True) if g is not None]


@pytest.mark.parametrize("network", NETWORKS)
def test_the_sides_hold_exactly_the_parameters_that_matter(network: type[nn.Module]) -> None:
    """Independent truth: a parameter is on a side iff changing it changes what that side computes."""
    torch.manual_seed(0)
    model, x = model_of(network()), inputs(4)
    used = {id(p) for p in _used(model, inputs(4))}
    for name, call in every_slice(model):
        s = model.slice(name, call=call)
        cut = s.h(x)
        output = s.g(cut)
        for path_, parameter in model.module.named_parameters():
            if id(parameter) not in used or not s.traced:
                continue
            original = parameter.detach().clone()
            with torch.no_grad():
                parameter.add_(0.3)
            changed = s.h(x)
            before = any(
                not torch.equal(a, b)
                for a, b in zip((changed.value, *changed.carried), (cut.value, *cut.carried), strict=True)
                if isinstance(a, torch.Tensor)
            )
            after = not torch.equal(s.g(cut), output)
            with torch.no_grad():
                parameter.copy_(original)
            assert not before or path_ in s.parameters_h, (s, path_)
            assert not after or path_ in s.parameters_g, (s, path_)
        assert {*s.parameters_h, *s.parameters_g} >= {p for p, v in model.module.named_parameters() if id(v) in used}


def test_a_skip_is_carried_or_held_but_never_ignored() -> None:
    model, x = model_of(Residual()), inputs(2).requires_grad_()
    carried, held = model.slice("inner"), model.slice("inner", skip="hold")
    assert carried.carries == ("first",)
    assert set(carried.parameters_h) == {"first.weight", "first.bias", "inner.weight", "inner.bias"}
    assert set(carried.parameters_g) == {"last.weight", "last.bias"}
    full = torch.autograd.grad(carried.g(carried.h(x)).sum(), x)[0]
    inner_only = torch.autograd.grad(held.g(held.h(x)).sum(), x)[0]
    module = model.module
    assert isinstance(module, Residual)
    # By hand: with the skip held fixed, only the way through `inner` has a gradient.
    skip = module.first(model.preprocess(x))
    by_hand = module.last(torch.relu(2 * (module.inner(skip) + skip.detach()))).sum()
    torch.testing.assert_close(inner_only, torch.autograd.grad(by_hand, x)[0])
    assert not torch.allclose(full, inner_only)


def test_replacing_the_value_leaves_the_cut_as_it_was() -> None:
    model, x = model_of(Residual()), inputs(2)
    s = model.slice("inner")
    cut = s.h(x)
    kept = cut.value.clone()
    z = torch.zeros_like(cut.value).requires_grad_()
    first, second = s.g(cut.replace(z)), s.g(cut.replace(z))
    assert torch.equal(first, second)
    assert torch.equal(cut.value, kept)
    assert torch.equal(z, torch.zeros_like(z))
    torch.autograd.grad(first.sum(), z)
    with pytest.raises(SliceError, match="cannot be replaced by shape"):
        cut.replace(z[:1])


def test_a_module_called_twice_asks_which_call() -> None:
    model, x = model_of(Twice()), inputs(2)
    with pytest.raises(SliceError, match=r"'shared' is called 2 times in one pass. Say after which call"):
        model.slice("shared")
    with pytest.raises(SliceError, match="no call=2"):
        model.slice("shared", call=2)
    first, second = model.slice("shared", call=0), model.slice("shared", call=1)
    assert not torch.equal(first.h(x).value, second.h(x).value)
    assert "scale" in first.parameters_h
    assert "scale" in first.parameters_g


def test_untraceable_networks_are_hooked_and_say_so() -> None:
    model, x = model_of(Untraced()), inputs(2)
    s = model.slice("inside.inner")
    assert not s.traced
    assert s.carries == ("input",)
    assert "hooked" in repr(s)
    # The prefix is needed again for the skip, and the slice says so.
    assert "inside.first.weight" in s.parameters_g
    assert "inside.inner.weight" not in s.parameters_g
    assert set(s.parameters_h) == {f"inside.{n}.{p}" for n in ("first", "inner") for p in ("weight", "bias")}
    s.g(s.h(x))
    assert not any(part._forward_hooks for part in model.module.modules())
    with pytest.raises(SliceError, match="no pass calls it"):
        model.slice("never")


def test_no_hook_survives_an_exception() -> None:
    model = model_of(Untraced())
    s = model.slice("inside.inner")
    with pytest.raises(RuntimeError):
        s.h(torch.zeros(2, WIDTH + 1))
    assert not any(part._forward_hooks for part in model.module.modules())


def test_unknown_places_name_the_nearest() -> None:
    model = model_of(Residual())
    with pytest.raises(
        SliceError, match=r"Cannot cut at 'iner': there is no module of that name. Did you mean 'inner'"
    ):
        model.slice("iner")
    with pytest.raises(
        InputError, match=r"The 'skip' parameter of slice must be 'carry' or 'hold'. Got 'drop' instead"
    ):
        model.slice("inner", skip="drop")  # type: ignore[arg-type]


def test_a_place_whose_result_is_unused_is_refused() -> None:
    class Ignored(Residual):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.first(x)
            self.relu(out)
            result: torch.Tensor = self.last(out)
            return result

    with pytest.raises(SliceError, match="nothing after it uses what it returns"):
        model_of(Ignored()).slice("relu")


def test_a_random_network_is_refused() -> None:
    class Noisy(Residual):
        strength = 1.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + self.strength * torch.rand(CLASSES).mul(float(x.shape[1]))

    for place in ("input", "inner"):
        with pytest.raises(SliceError, match="random in eval mode"):
            model_of(Noisy()).slice(place)
    network = Noisy()
    network.strength = 0.0
    model = model_of(network)
    model.slice("input")
    network.strength = 1.0  # that it was steady once is no promise
    with pytest.raises(SliceError, match="random in eval mode"):
        model.slice("input")


def test_operations_are_places_too() -> None:
    model, x = model_of(Branching()), inputs(2)
    s = model.slice("relu")
    assert torch.equal(s.h(x).value, torch.relu(model.module.get_submodule("right")(model.preprocess(x))))
    assert model.slices()[0] == "input"
    assert torch.equal(model.slice("input").h(x).value, x)


def test_places_inside_torchs_own_modules_are_hooked() -> None:
    model = model_of(Attention())
    assert model.slice("block").traced
    s = model.slice("block.linear1")
    assert not s.traced


def test_an_lstm_carries_the_rest_of_its_nest() -> None:
    model, x = model_of(Recurrent()), inputs(2)
    cut = model.slice("lstm").h(x)
    assert cut.value.shape == (2, WIDTH // 2, 5)
    assert [c.shape for c in cut.carried if isinstance(c, torch.Tensor)] == [(1, 2, 5), (1, 2, 5)]


KINDS = ["linear", "add", "inplace_add", "inplace_relu", "relu_on_old", "gate"]


@given(
    steps=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6),
    traceable=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_drawn_networks_are_cut_exactly_or_refused(
    steps: list[tuple[str, int, int]], traceable: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    model, x = model_of(Drawn(steps, traceable)), inputs(4, seed)
    expected = model.logits(x)
    for i, (kind, _, _) in enumerate(steps):
        if kind == "relu_on_old":
            continue
        try:
            s = model.slice(f"layers.{i}")
        except SliceError:
            assert not _matters(model, i, x)
            continue
        assert s.traced == traceable
        cut = s.h(x)
        kept = [t.clone() for t in (cut.value, *cut.carried)]
        assert torch.equal(s.g(cut), expected)
        assert torch.equal(s.g(cut), expected)
        assert all(map(torch.equal, kept, (cut.value, *cut.carried)))


def _matters(model: Model, layer: int, x: torch.Tensor) -> bool:
    """Whether the output changes with the layer's bias."""
    bias = model.module.get_parameter(f"layers.{layer}.bias")
    expected = model.logits(x)
    with torch.no_grad():
        bias.add_(10.0)
        changed = not torch.equal(model.logits(x), expected)
        bias.sub_(10.0)
    return changed


def test_a_compiled_network_is_cut_at_the_names_of_its_original() -> None:
    network = Residual()
    compiled, plain = model_of(torch.compile(network, backend="eager")), model_of(network)  # type: ignore[arg-type]
    assert compiled.slices() == plain.slices()
    assert compiled.fingerprint() == plain.fingerprint()
    s, x = compiled.slice("inner"), inputs(3)
    assert torch.equal(s.g(s.h(x)), plain.forward(x))
