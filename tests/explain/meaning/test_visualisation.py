"""Optimised inputs are the closed form where there is one, and beat the data where there is none."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from modelkeep import Data, Model, Result
from modelkeep.core import plots
from modelkeep.core.errors import InputError, SliceError
from modelkeep.explain import Channel, ClassScore, OfInner, PredictedScore, Unit
from modelkeep.explain.meaning.search_space import COLOURS, SearchSpace, Transformations, from_spectrum, to_spectrum
from modelkeep.explain.meaning.visualisation import Visualise, Visualised

STILL = Transformations(rotation=0.0, scaling=0.0, jitter=0.0)


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def linear(weight: torch.Tensor, bounds: tuple[float, float] | None = (0.0, 1.0)) -> Model:
    """The first logit is the inner product of the input and the weight."""
    layer = nn.Linear(weight.numel(), 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.stack([weight.flatten(), torch.zeros(weight.numel())]))
    return Model(nn.Sequential(nn.Flatten(), layer), input_shape=weight.shape, classes=("cat", "dog"), bounds=bounds)


def table(n: int, width: int, seed: int = 0) -> Data:
    x = noise(n, width, seed=seed) * torch.arange(1, width + 1) + 5
    return Data(x, torch.arange(n) % 2, ("cat", "dog"), features=tuple(f"f{i}" for i in range(width)))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 5.0)])
def test_of_a_linear_model_in_bounds_it_is_the_sign_pattern(bounds: tuple[float, float]) -> None:
    weight = noise(1, 6, 6)
    found = Visualise(quantity=ClassScore("cat"), parametrisation="pixels", transformations=STILL, learning_rate=0.5)(
        linear(weight, bounds), seed=0
    )
    corner = torch.where(weight > 0, bounds[1], bounds[0])
    torch.testing.assert_close(found.input, corner, atol=0.01 * (bounds[1] - bounds[0]), rtol=0)
    assert found.value == pytest.approx(float((weight * corner).sum()), rel=0.01)
    assert float(found.curve[-1]) == pytest.approx(found.value, rel=1e-3)


def test_of_a_linear_model_without_bounds_it_is_the_gradient_in_standard_deviations() -> None:
    """The maximum of w·x with ‖(x - mean) / std‖ ≤ √d is at u = √d (std·w) / ‖std·w‖."""
    weight, data = noise(8, seed=1), table(200, 8)
    found = Visualise(quantity=ClassScore("cat"))(linear(weight, None), data=data, seed=0)
    slope = weight * data.x.std(dim=0, correction=0)
    expected = math.sqrt(8) * slope / slope.norm()
    torch.testing.assert_close(found.deviation, expected, atol=1e-3, rtol=1e-3)
    assert found.furthest_features(1)[0][0] == f"f{int(expected.abs().argmax())}"


def test_an_interior_maximum_is_found() -> None:
    """A unit that wants one place only: -(x - c)²."""
    model = Model(nn.Sequential(nn.Identity(), nn.Linear(3, 2)), input_shape=(3,), classes=2)
    wanted = torch.tensor([0.2, 0.5, 0.9])
    near = OfInner("near", "0", lambda z: -((z - wanted) ** 2).sum(dim=1))
    torch.testing.assert_close(Visualise(quantity=near)(model, seed=0).input, wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize("parametrisation", ["fourier", "pixels"])
def test_it_beats_the_best_example(small_cnn: Model, parametrisation: str) -> None:
    data = Data(noise(200, 1, 8, 8).sigmoid(), torch.zeros(200, dtype=torch.int64), small_cnn.classes)
    with torch.no_grad():
        hidden = small_cnn.module[:6](data.x)  # type: ignore[index]
    unit = int(hidden.mean(dim=0).argmax())
    for quantity in (ClassScore("two"), Channel("1", 2), Unit("5", unit)):
        found = Visualise(quantity=quantity, parametrisation=parametrisation)(small_cnn, data=data, seed=0)  # type: ignore[arg-type]
        assert found.best_value is not None
        assert found.value > found.best_value > found.on_noise.value
        assert 0 <= found.input.min()
        assert found.input.max() <= 1
        assert found.curve[-20:].mean() > found.curve[:20].mean()
    assert found.best_example == int(hidden[:, unit].argmax())
    assert found.best_value == pytest.approx(float(hidden[:, unit].max()))


def test_the_network_runs_only_up_to_the_unit(small_cnn: Model) -> None:
    ran: list[str] = []
    handles = [
        part.register_forward_hook(lambda *_, name=name: ran.append(name))
        for name, part in small_cnn.module.named_modules()
    ]
    Visualise(quantity=Channel("1", 2), steps=50)(small_cnn, seed=0)
    for handle in handles:
        handle.remove()
    assert ran.count("0") > 50
    assert ran.count("6") < 10


def test_a_unit_that_is_dead_on_faint_noise_is_still_found() -> None:
    """Active only where the one bright pixel is nearly 1: the search begins at the best example."""
    detector = nn.Linear(16, 2)
    with torch.no_grad():
        detector.weight.zero_()
        detector.weight[0, 5] = 10.0
        detector.bias.copy_(torch.tensor([-9.99, 1.0]))
    model = Model(nn.Sequential(nn.Flatten(), detector, nn.ReLU(), nn.Linear(2, 2)), input_shape=(1, 4, 4), classes=2)
    x = torch.zeros(3, 1, 4, 4)
    x[1, 0, 1, 1] = 1.0
    data = Data(x, torch.zeros(3, dtype=torch.int64), ("0", "1"))
    found = Visualise(quantity=Unit("2", 0), parametrisation="pixels", transformations=STILL)(model, data=data, seed=0)
    assert found.flat  # a hundredth below the brightest there is, the sigmoid's start, it is still silent
    detector.bias.data[0] = -9.5
    found = Visualise(quantity=Unit("2", 0), parametrisation="pixels", transformations=STILL)(model, data=data, seed=0)
    assert not found.flat
    assert found.value > 0.4
    assert found.start == "best example"


def test_a_unit_that_never_changes_is_called_flat() -> None:
    layer = nn.Linear(16, 2)
    with torch.no_grad():
        layer.weight.fill_(-1.0)
        layer.bias.fill_(-1.0)
    model = Model(nn.Sequential(nn.Flatten(), layer, nn.ReLU(), nn.Linear(2, 2)), input_shape=(1, 4, 4), classes=2)
    found = Visualise(quantity=Unit("2", 0), steps=5)(model, seed=0)
    assert found.flat
    assert found.value == 0
    assert "does not change" in dict(found.rows())["there"]


def test_the_same_seed_gives_the_same_input_and_another_one_another(small_cnn: Model) -> None:
    first, again, other = (Visualise(quantity=ClassScore("one"), steps=20)(small_cnn, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.input, again.input)
    assert torch.equal(first.curve, again.curve)
    assert not torch.equal(first.input, other.input)


@given(height=st.integers(1, 9), width=st.integers(1, 9), seed=st.integers(0, 99))
def test_a_spectrum_gives_the_image_that_it_was_made_of(height: int, width: int, seed: int) -> None:
    image = noise(2, 3, height, width, seed=seed).double()
    spectrum = to_spectrum(image)
    assert spectrum.shape == (2, 3, height, width // 2 + 1, 2)
    again = from_spectrum(spectrum, height, width)
    assert not again.is_complex()
    torch.testing.assert_close(again, image)


def test_equal_entries_of_the_spectrum_give_amplitudes_that_fall_with_frequency() -> None:
    """A white spectrum becomes an image whose amplitude at frequency f is proportional to 1/f."""
    spectrum = noise(400, 1, 16, 9, 2).double()
    power = torch.fft.rfft2(from_spectrum(spectrum, 16, 16), norm="ortho").abs().square().mean(dim=(0, 1))
    slope = math.log(float(power[0, 1] / power[0, 4])) / math.log(4)
    assert slope == pytest.approx(2, abs=0.2)
    assert float(power[0, 5]) == pytest.approx(float(power[3, 4]), rel=0.2)  # the same in all directions


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), None])
def test_encoding_an_input_and_decoding_it_gives_it_back(channels: int, bounds: tuple[float, float] | None) -> None:
    centre = torch.full((channels, 6, 5), 0.5, dtype=torch.float64)
    space = SearchSpace(bounds, centre, torch.full_like(centre, 0.3), fourier=True)
    x = 0.1 + 0.8 * noise(1, channels, 6, 5).double().sigmoid()
    torch.testing.assert_close(space.decode(space.encode(x)), x)


def test_colours_are_decorrelated_as_in_natural_images() -> None:
    """Independent parameters become colours whose main axis is brightness."""
    free = noise(3, 5000).double()
    correlation = torch.corrcoef(COLOURS.double() @ free)
    assert (correlation > 0.7).all()
    assert float(COLOURS.norm(dim=0).max()) == pytest.approx(1.0, abs=1e-3)


def test_transformations_turn_scale_and_move_by_no_more_than_they_say() -> None:
    generator = torch.Generator().manual_seed(0)
    dot = torch.zeros(1, 1, 33, 33)
    dot[0, 0, 16, 16] = 1.0
    for _ in range(50):  # the middle only moves by the jitter, whatever the turn and the size
        moved = Transformations(jitter=0.1)(dot, generator)[0, 0]
        row, column = divmod(int(moved.argmax()), 33)
        assert max(abs(row - 16), abs(column - 16)) <= math.ceil(0.1 * 33)
    turned = Transformations(rotation=180.0, scaling=0.0, jitter=0.0)(noise(1, 2, 7, 5), generator)
    assert turned.shape == (1, 2, 7, 5)
    image = noise(1, 3, 8, 8)
    assert torch.equal(STILL(image, generator), image)
    with pytest.raises(InputError, match="'rotation' parameter of Transformations"):
        Transformations(rotation=-1.0)


def test_a_turned_dot_of_a_wide_image_keeps_its_distance() -> None:
    """The sides differ, and a turn by θ must still be a turn."""
    image = torch.zeros(1, 1, 41, 81)
    image[0, 0, 20, 40 + 12] = 1.0
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        turned = Transformations(rotation=90.0, scaling=0.0, jitter=0.0)(image, generator)[0, 0]
        turned[:, :20] = turned[:, 61:] = 0.0  # where the mirrored edges are
        row, column = divmod(int(turned.argmax()), 81)
        assert math.hypot(row - 20, column - 40) == pytest.approx(12, abs=1.0)


def test_reads_stores_and_draws_itself(small_cnn: Model) -> None:
    data = table(30, 8)
    found = [
        Visualise(quantity=Channel("2", 1), steps=3)(small_cnn, seed=4),
        Visualise(quantity=ClassScore("cat"), steps=3)(linear(noise(8), None), data=data, seed=4),
    ]
    for result in found:
        again = Result.from_json(result.to_json())
        assert isinstance(again, Visualised)
        assert json.loads(again.to_json()) == json.loads(result.to_json())
        assert plots.png_bytes(result.draw()).startswith(b"\x89PNG")
    assert found[1].provenance.data == data.fingerprint()
    assert dict(found[1].rows())["moved most"].count("f") == 3


def test_what_cannot_be_asked_is_refused(small_cnn: Model) -> None:
    flat = linear(noise(8), None)
    with pytest.raises(InputError, match="no class 'cow'"):
        Visualise(quantity=ClassScore("cow"))(small_cnn, seed=0)
    with pytest.raises(SliceError, match="Cannot cut at 'conv'"):
        Visualise(quantity=Unit("conv", 0))(small_cnn, seed=0)
    with pytest.raises(InputError, match="0 to 3 at '2'"):
        Visualise(quantity=Channel("2", 4))(small_cnn, seed=0)
    with pytest.raises(InputError, match="no predicted class"):
        Visualise(quantity=PredictedScore())(small_cnn, seed=0)
    with pytest.raises(InputError, match="Give data="):
        Visualise(quantity=ClassScore("cat"))(flat, seed=0)
    with pytest.raises(InputError, match="'parametrisation'"):
        Visualise(quantity=ClassScore("cat"), parametrisation="fourier")(flat, data=table(9, 8), seed=0)
    with pytest.raises(InputError, match="'steps'"):
        Visualise(quantity=ClassScore("one"), steps=0)(small_cnn, seed=0)
    with pytest.raises(InputError, match="'learning_rate'"):
        Visualise(quantity=ClassScore("one"), learning_rate=0.0)(small_cnn, seed=0)
    with pytest.raises(InputError, match="one number per example"):
        Visualise(quantity=OfInner("all", "4", lambda z: z))(small_cnn, seed=0)
