"""A certified network is computed by sums whose rounding is known; what rounds more coarsely is left out or refused."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from certify.networks import exactly, model_of
from modelkeep import Data
from modelkeep.certify import Certify, GloRoNet, lipschitz
from modelkeep.certify.arithmetic import plain_kernels, require_plain_arithmetic
from modelkeep.core.errors import ModelError

CPU = torch.device("cpu")


def spike_model() -> tuple[Any, torch.Tensor]:
    """One kernel of 3 × 3, and 64 pictures with one bright pixel: Winograd's transform spreads its rounding around."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        convolution = nn.Conv2d(1, 1, 3, padding=1)
    x = torch.zeros(64, 1, 8, 8)
    places = torch.arange(64)
    x[places, 0, places // 8, places % 8] = 1.2345678e3
    return model_of(nn.Sequential(convolution, nn.Flatten()), 1, 8, 8, classes=64), x


def tightness(model: Any, x: torch.Tensor, computed: torch.Tensor) -> float:
    """The largest error of a margin, in units of its bound."""
    bounds, off = lipschitz(model), (computed.double() - exactly(model)(x.double())).detach()
    limit = bounds.rounding_slope * x.double().flatten(1).norm(dim=1)[:, None, None] + bounds.rounding_offset
    apart = (off[:, :, None] - off[:, None]).abs()
    return float((apart / limit.clamp(min=1e-300)).nan_to_num(0, 0, 0).max())


@pytest.mark.skipif(not torch._nnpack_available(), reason="torch is built without NNPACK")
def test_winograd_breaks_the_bound_and_is_left_out() -> None:
    model, x = spike_model()
    with warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
        assert tightness(model, x, model.logits(x)) > 1.2  # NNPACK: what the owner would get without us
        with plain_kernels(CPU):
            assert tightness(model, x, model.logits(x)) < 0.1
        net = GloRoNet(model, 1e-6)
        assert tightness(model, x, net.logits(x)[:, :-1]) < 0.1
        labels = model.predict(x)
        Certify(radius=1e-6)(model, Data(x, labels, model.classes, bounds=None), seed=0)  # compares each answer


def test_the_switches_stay_off_while_one_thread_needs_that_and_come_back() -> None:
    before = torch._C._get_nnpack_enabled(), torch._C._get_cudnn_enabled()
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with plain_kernels(CPU):
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=hold)
    other.start()
    entered.wait(10)
    with plain_kernels(CPU):
        pass
    assert not torch._C._get_nnpack_enabled()
    leave.set()
    other.join()
    assert (torch._C._get_nnpack_enabled(), torch._C._get_cudnn_enabled()) == before


@contextmanager
def setting(place: Any, name: str, value: str) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(
    ("of", "value"), [("", "tf32"), ("mkldnn", "bf16"), ("mkldnn.matmul", "bf16"), ("mkldnn.conv", "bf16")]
)
def test_settings_that_round_more_coarsely_are_refused(of: str, value: str) -> None:
    place: Any = torch.backends
    for name in filter(None, of.split(".")):
        place = getattr(place, name)
    with setting(place, "fp32_precision", value), pytest.raises(ModelError, match="fewer digits"):
        require_plain_arithmetic(CPU)
    require_plain_arithmetic(CPU)


def test_the_strictest_setting_of_all_is_accepted() -> None:
    with setting(torch.backends, "fp32_precision", "ieee"):
        assert lipschitz(model_of(nn.Linear(2, 2), 2, classes=2)).constant > 0


@pytest.mark.parametrize(("name", "value"), [("ONEDNN_DEFAULT_FPMATH_MODE", "BF16"), ("NVIDIA_TF32_OVERRIDE", "1")])
def test_the_environment_counts(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=f"{name}={value}"):
        require_plain_arithmetic(CPU)


def test_a_device_whose_kernels_are_not_known_is_refused() -> None:
    with pytest.raises(ModelError, match="kernels of the device 'mps'"):
        require_plain_arithmetic(torch.device("mps"))
