"""A recording holds what crosses the two cuts: the piece's own values and gradients, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from modelkeep import Data, Model
from modelkeep.completion.part import Part
from modelkeep.completion.recording import RecordedPass, Recording, cuts_around, record
from modelkeep.core.errors import CheckpointError, InputError
from modelkeep.core.slices import Place
from modelkeep.training.checkpoint import Snapshot
from modelkeep.zoo import datasets
from modelkeep.zoo.architectures import small_cnn, small_resnet


def digits() -> Data:
    return datasets.load("digits", "train").first(64)


def network(module: nn.Module | None = None) -> Model:
    torch.manual_seed(0)
    return Model(module or small_cnn((1, 8, 8), 10), input_shape=(1, 8, 8), classes=digits().classes)


def made(model: Model, layer: str, *, training: bool = True, passes: int = 2) -> Recording:
    return record(model, Part(layer, (layer,)), digits(), passes=passes, batch_size=16, seed=3, training=training)


def test_the_cuts_are_right_before_and_right_after_the_part() -> None:
    model = network()
    assert cuts_around(model, Part("first", ("conv1",))) == (None, Place("conv1"))
    assert cuts_around(model, Part("inner", ("conv2",))) == (Place("conv1_pool"), Place("conv2"))
    assert cuts_around(model, Part("two", ("conv2", "linear1"))) == (Place("conv1_pool"), Place("linear1"))
    assert cuts_around(model, Part("last", ("logits",))) == (Place("linear1_relu"), None)
    with pytest.raises(InputError, match="spans the whole network"):
        cuts_around(model, Part("all", ("",)))


@pytest.mark.parametrize("layer", ["conv1", "conv2", "linear1", "logits"])
def test_a_training_pass_is_the_networks_own(layer: str) -> None:
    """Against hooks on the whole network, which autograd differentiates in one go."""
    model = network()
    recording = made(model, layer)
    for passed in recording.passes:
        seen: dict[str, torch.Tensor] = {}

        def hook(_: nn.Module, given: tuple[torch.Tensor, ...], out: torch.Tensor, seen: object = seen) -> None:
            assert isinstance(seen, dict)
            seen["in"], seen["out"] = given[0], out

        handle = model.module.get_submodule(layer).register_forward_hook(hook)
        x = digits().x[passed.rows].requires_grad_()
        loss = cross_entropy(model.forward(x), digits().y[passed.rows])
        handle.remove()
        slopes = dict(zip(seen, torch.autograd.grad(loss, list(seen.values())), strict=True))
        assert torch.equal(passed.inputs[0].flatten(), seen["in"].flatten())  # the flattening may be the piece's own
        if layer == "logits":
            assert not passed.outputs
        else:
            assert torch.equal(passed.outputs[0], seen["out"])
            assert passed.output_gradients[0] is not None
            assert torch.allclose(passed.output_gradients[0], slopes["out"], atol=1e-9)
        if layer == "conv1":
            assert not passed.input_gradients
        else:
            assert passed.input_gradients[0] is not None
            assert torch.allclose(passed.input_gradients[0].flatten(), slopes["in"].flatten(), atol=1e-9)


def test_inference_gives_the_outputs_and_no_gradients() -> None:
    model = network()
    for passed in made(model, "logits", training=False).passes:
        assert torch.equal(passed.outputs[0], model.logits(digits().x[passed.rows]))
        assert not passed.input_gradients
        assert not passed.output_gradients


def test_a_cut_inside_a_residual_block_is_several_tensors_wide() -> None:
    model = network(small_resnet((1, 8, 8), 10, blocks=1, width=4))
    before = model.fingerprint()
    recording = made(model, "section2.block1.residual")
    assert len(recording.passes[0].inputs) == 1
    assert len(recording.passes[0].outputs) == 2
    assert model.fingerprint() == before, "batch norm's statistics are the owner's"


@pytest.mark.parametrize("layer", ["conv1", "conv2", "logits"])
def test_a_saved_recording_comes_back(layer: str, tmp_path: Path) -> None:
    recording = made(network(), layer)
    again = Recording.load(recording.save(tmp_path / "recording.safetensors"))
    assert (again.start, again.end, again.training, again.data) == (
        recording.start,
        recording.end,
        recording.training,
        recording.data,
    )
    for a, b in zip(recording.passes, again.passes, strict=True):
        for kind in ("inputs", "outputs", "output_gradients", "input_gradients"):
            assert len(getattr(a, kind)) == len(getattr(b, kind))
            assert all(map(torch.equal, getattr(a, kind), getattr(b, kind)))


def test_a_damaged_or_strange_file_is_refused(tmp_path: Path) -> None:
    path = made(network(), "conv2").save(tmp_path / "recording")
    with pytest.raises(CheckpointError, match="There is no recording"):
        Recording.load(tmp_path / "nothing")
    payload = bytearray(path.read_bytes())
    payload[-5] ^= 1
    path.write_bytes(payload)
    with pytest.raises(CheckpointError, match="damaged"):
        Recording.load(path)
    path.write_bytes(Snapshot({}, {}, {"seed": 1}).to_bytes())
    with pytest.raises(CheckpointError, match="not a recording"):
        Recording.load(path)


def test_what_cannot_have_crossed_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        RecordedPass(torch.arange(2), (torch.zeros(2, 3),), input_gradients=(torch.zeros(2, 4),))
    with pytest.raises(InputError, match="NaN"):
        RecordedPass(torch.arange(2), (torch.full((2, 3), torch.nan),))
    with pytest.raises(InputError, match="at least one pass"):
        Recording(None, Place("conv1"), True, "", ())
    with pytest.raises(InputError, match="'passes'"):
        made(network(), "conv1", passes=0)
