"""Files that ModelKeep never opens, made as their owners make them."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

NETWORK = """
from torch import nn

class Network(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.normal = nn.BatchNorm2d(width)
        self.head = nn.Linear(36 * width, 3)

    def forward(self, x):
        return self.head(self.normal(self.conv(x)).relu().flatten(1))
"""


def network(folder: Path) -> nn.Module:
    """A network whose class stands in `owners_network.py` in the folder."""
    (folder / "owners_network.py").write_text(NETWORK)
    sys.path.insert(0, str(folder))
    try:
        sys.modules.pop("owners_network", None)
        from owners_network import Network  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(folder))
    torch.manual_seed(0)
    made: nn.Module = Network()
    return made.eval()


def write_files(folder: Path, made: nn.Module) -> dict[str, str]:
    """Write the network in every way that torch knows, and say what each file is."""
    weights = made.state_dict()
    torch.save(made, folder / "module.pt")
    torch.save(made, folder / "old.pt", _use_new_zipfile_serialization=False)
    (folder / "plain.pkl").write_bytes(pickle.dumps(made))
    torch.save(weights, folder / "weights.pth")
    torch.save(weights, folder / "old.pth", _use_new_zipfile_serialization=False)
    optimizer = torch.optim.Adam(made.parameters())
    torch.save({"epoch": 3, "state_dict": weights, "optimizer": optimizer.state_dict()}, folder / "run.ckpt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit says that it is old
        torch.jit.script(made).save(folder / "script.pt")  # type: ignore[no-untyped-call]
        traced: Any = torch.jit.trace(made, torch.rand(2, 1, 8, 8))  # type: ignore[no-untyped-call]
        traced.save(folder / "trace.model")
    return {
        "module.pt": "module",
        "old.pt": "module",
        "plain.pkl": "module",
        "weights.pth": "state dict",
        "old.pth": "state dict",
        "run.ckpt": "state dict",
        "script.pt": "torchscript",
        "trace.model": "torchscript",
    }


def write_estimators(folder: Path) -> dict[str, str]:
    """Write a pipeline of scikit-learn in every way that is usual, and say what loads each file."""
    random = np.random.default_rng(0)
    x = random.random((60, 5))
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, (x[:, 0] > 0.5).astype(int))
    joblib.dump(estimator, folder / "plain.joblib")
    (folder / "estimator.pkl").write_bytes(pickle.dumps(estimator))
    for how in ("zlib", "gzip", "bz2", "xz", "lzma"):
        joblib.dump(estimator, folder / f"{how}.joblib", compress=(how, 3))
    return {"plain.joblib": "joblib", "estimator.pkl": "pickle"} | {
        f"{how}.joblib": "joblib" for how in ("zlib", "gzip", "bz2", "xz", "lzma")
    }
