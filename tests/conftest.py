"""What all tests share: one thread per test process, and small models to try things on."""

from __future__ import annotations

import os
import signal

import pytest

# Set before torch is imported: two test processes share two cores, and one thread keeps sums in one order.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Hundreds of commands are started; each would compile all of ModelKeep again where Python may not keep the result.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# A background job ignores SIGINT, and so would every process that a test starts and then interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import torch
from hypothesis import settings
from torch import nn

from digits import digits_cnn, digits_dense, held_out_digits, training_digits
from modelkeep import Data, Model

torch.set_num_threads(1)
# The first example of a property pays for imports; a deadline per example would only measure the machine.
settings.register_profile("modelkeep", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("modelkeep")


@pytest.fixture
def small_cnn() -> Model:
    """An untrained CNN for 8×8 grey images and four classes."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 16),
        nn.ReLU(),
        nn.Linear(16, 4),
    )
    return Model(module, input_shape=(1, 8, 8), classes=("zero", "one", "two", "three"))


@pytest.fixture(scope="session")
def digits() -> tuple[Data, Data]:
    """The 8×8 digits, to train on and held out."""
    return training_digits(), held_out_digits()


@pytest.fixture(scope="session")
def trained_cnn() -> Model:
    """A small CNN that is right about most digits. It is shared: leave it as it is."""
    return digits_cnn()


@pytest.fixture(scope="session")
def trained_dense() -> Model:
    """A dense network that is right about most digits. It is shared: leave it as it is."""
    return digits_dense()


LONGEST = ("test_docs.py", "test_ray.py", "test_wheel.py", "test_gallery.py", "test_survival.py", "test_chaos.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, the guides first: at the end, two of three processes would wait for it."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
