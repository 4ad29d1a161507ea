"""A saved model comes back bit for bit; what does not fit, or cannot be trusted, is refused with the way out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from modelkeep import Model, Preprocessing
from modelkeep.core import formats
from modelkeep.core.card import Card
from modelkeep.core.errors import InputError, ModelError
from modelkeep.core.formats.weights import HEADER
from modelkeep.zoo import architectures

pytestmark = pytest.mark.usefixtures("networks")


def load(factory: str, **given: Any) -> Model:
    return Model.load(f"their_networks:{factory}", **{"input_shape": (4,), "classes": ("a", "b", "c"), **given})


def scrambled(model: Model) -> Model:
    """Other weights than any factory makes."""
    generator = torch.Generator().manual_seed(1)
    for tensor in model.module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator))
    return model


def header(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()[HEADER])
    return found


@pytest.mark.parametrize("factory", ["linear", "batch_norm", "tied", "views"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip_with_a_named_factory(factory: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = scrambled(load(factory))
    model = Model.from_card(model.module.to(dtype), model.card)
    path = model.save(tmp_path / "model.safetensors")
    again = Model.load(f"their_networks:{factory}", weights=path)
    assert again.fingerprint() == model.fingerprint()
    assert again.card == model.card
    assert torch.equal(again.logits(model.probe()), model.logits(model.probe()))


def test_round_trip_of_our_own_architecture_needs_no_factory(tmp_path: Path) -> None:
    arguments = {"input_shape": [1, 8, 8], "classes": 4}
    model = Model(
        architectures.small_cnn([1, 8, 8], 4),
        input_shape=(1, 8, 8),
        classes=("α", "b", "c", "d"),
        preprocessing=Preprocessing((0.1307,), (0.3081,)),
        bounds=(-1.0, 2.5),
        architecture="modelkeep.architectures:small_cnn",
        arguments=arguments,
    )
    again = Model.load(scrambled(model).save(tmp_path / "model.safetensors"))
    assert again.fingerprint() == model.fingerprint()
    assert again.card == model.card


@given(st.data())
def test_any_card_comes_back(data: st.DataObject) -> None:
    texts = st.text(min_size=1, max_size=5)
    numbers = st.floats(-1e6, 1e6)
    low, high = sorted(data.draw(st.lists(numbers, min_size=2, max_size=2, unique=True)))
    card = Card(
        tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))),
        tuple(data.draw(st.lists(texts, min_size=2, max_size=4, unique=True))),
        Preprocessing((data.draw(numbers),), (data.draw(st.floats(1e-3, 1e3)),)),
        data.draw(st.sampled_from([None, (low, high)])),
        "their_networks:linear",
    )
    with TemporaryDirectory() as folder:
        path = formats.write(Path(folder) / "model.safetensors", nn.Linear(4, 3), card)
        found = formats.read("their_networks:linear", weights=path, card={})
    assert found.card() == card


def test_what_the_user_says_goes_before_the_header(tmp_path: Path) -> None:
    path = load("linear").save(tmp_path / "model.safetensors")
    again = Model.load("their_networks:linear", weights=path, classes=("x", "y", "z"), bounds=None)
    assert again.classes == ("x", "y", "z")
    assert again.bounds is None


def test_arguments_reach_the_factory_and_come_back(tmp_path: Path) -> None:
    model = load("linear", input_shape=(7,), arguments={"width": 7})
    again = Model.load("their_networks:linear", weights=model.save(tmp_path / "model.safetensors"))
    assert again.card.arguments == {"width": 7}


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path: Path) -> None:
    model = scrambled(load("tied"))
    path = model.save(tmp_path / "model.safetensors")
    assert set(load_file(path)) == {"first.weight", "first.bias", "second.bias", "top.weight", "top.bias"}
    assert header(path)["aliases"] == {"second.weight": "first.weight"}
    again = Model.load("their_networks:tied", weights=path).module
    assert again.get_parameter("first.weight") is again.get_parameter("second.weight")
    # A factory that does not tie them still gets both values.
    apart = Model.load("their_networks:untied", weights=path).module
    assert torch.equal(apart.get_parameter("first.weight"), apart.get_parameter("second.weight"))
    # Other makers' files drop one of the names and record nothing.
    save_file(load_file(path), tmp_path / "other.safetensors")
    assert load("tied", weights=tmp_path / "other.safetensors").logits(model.probe()).equal(model.logits(model.probe()))


def test_loading_leaves_the_global_generator_alone() -> None:
    state = torch.random.get_rng_state()
    load("linear")
    assert torch.equal(state, torch.random.get_rng_state())


def test_strict_loading_names_everything_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"weight": torch.zeros(3, 5), "extra": torch.zeros(1)}, path)
    with pytest.raises(ModelError) as caught:
        load("linear", weights=path)
    message = str(caught.value)
    assert "missing: bias" in message
    assert "unexpected: extra" in message
    assert "weight is float32 (3, 5) in the file, float32 (3, 4) in the module" in message


def test_mixed_types_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"weight": torch.zeros(3, 4, dtype=torch.float64), "bias": torch.zeros(3)}, path)
    with pytest.raises(ModelError, match=r"weight is float64 \(3, 4\) in the file"):
        load("linear", weights=path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_damaged_weights_are_refused_both_ways(tmp_path: Path, value: float) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"weight": torch.full((3, 4), value), "bias": torch.zeros(3)}, path)
    with pytest.raises(ModelError, match="NaN or infinite weights in weight"):
        load("linear", weights=path)
    model = load("linear")
    model.module.get_parameter("bias").data[0] = value
    with pytest.raises(ModelError, match="NaN or infinite weights in bias"):
        model.save(tmp_path / "new.safetensors")
    assert not (tmp_path / "new.safetensors").exists()


def test_arguments_that_are_not_json_are_refused(tmp_path: Path) -> None:
    card = Card((4,), ("a", "b", "c"), architecture="x:y", arguments={"activation": torch.relu})
    with pytest.raises(InputError, match="must be JSON"):
        formats.write(tmp_path / "model.safetensors", nn.Linear(4, 3), card)
    assert list(tmp_path.glob("*model*")) == []


def test_other_state_than_tensors_is_refused(tmp_path: Path) -> None:
    class Keeps(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"steps": 3}

    with pytest.raises(ModelError, match="other state in: _extra_state"):
        formats.write(tmp_path / "model.safetensors", Keeps(4, 3), Card((4,), ("a", "b", "c")))


def test_saving_replaces_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    first = load("linear").save(folder / "model.safetensors").read_bytes()
    second = scrambled(load("linear")).save(folder / "model.safetensors").read_bytes()
    assert first != second
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be written.*Does its folder exist"):
        load("linear").save(tmp_path / "absent" / "model.safetensors")


FULL_DISK = """
import sys, signal, resource
from pathlib import Path
import torch
from torch import nn
from modelkeep.core import formats
from modelkeep.core.card import Card
from modelkeep.core.errors import ModelError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    formats.write(Path(sys.argv[1]), nn.Linear(200, 200), Card((200,), ("a", "b")))
except ModelError as error:
    sys.exit(0 if "is unchanged" in str(error) else 2)
sys.exit(3)
"""


def test_the_old_file_survives_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files fails the write in the middle, as a full disk does."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = load("linear").save(folder / "model.safetensors")
    old = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == old
    assert [entry.name for entry in folder.iterdir()] == ["model.safetensors"]


def test_permissions_are_those_of_any_new_file_and_then_stay(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    path = load("linear").save(tmp_path / "model.safetensors")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o600)
    load("linear").save(path)
    assert path.stat().st_mode & 0o777 == 0o600
