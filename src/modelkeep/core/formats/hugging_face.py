"""Hugging Face: a classifier from its folder (`config.json`, safetensors), and built again from the config alone.

Only classes of the package `transformers` itself are ever called. Code that a folder brings is never run
(`trust_remote_code=False`, and `auto_map` is left out), nothing is downloaded, and no pickle is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modelkeep.core.errors import MissingExtra, ModelError
from modelkeep.core.processor import FILE as PROCESSOR
from modelkeep.core.processor import read_processor

FACTORIES = {
    f"transformers:AutoModelFor{task}": task
    for task in ("ImageClassification", "SequenceClassification", "AudioClassification")
}
"""The factories that a file may name beside ours: they build a network from `{"config": {…}}` and run no other code."""

_REFUSED = {
    "CausalLM": "generation",
    "ConditionalGeneration": "generation",
    "Seq2SeqLM": "generation",
    "MaskedLM": "generation",
    "ObjectDetection": "detection",
    "Segmentation": "segmentation",
    "TokenClassification": "one answer per token",
    "QuestionAnswering": "answers that are spans of a text",
}
_USUAL_LENGTH = 128  # tokens, where neither data nor description say how long an input is
# Where a folder has been, and code that it brings: no part of what the network is.
_DROPPED = ("auto_map", "_name_or_path", "transformers_version", "trust_remote_code")


def is_folder(path: Path) -> bool:
    """Whether this is a folder as `save_pretrained` writes it."""
    return path.is_dir() and (path / "config.json").is_file()


def read_folder(folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network with its weights, and what config and processor say about it."""
    config = _read_json(folder / "config.json")
    spec = _factory(config, folder)
    transformers = _transformers()
    if not list(folder.glob("*.safetensors")):
        raise ModelError(
            f"'{folder}' has no weights in safetensors, and pickles are never opened. Convert them once:\n\n"
            f"    modelkeep convert {folder}\n"
        )
    with _quiet(transformers), torch.random.fork_rng(devices=[]):
        try:
            module, report = getattr(transformers, spec.partition(":")[2]).from_pretrained(
                str(folder.resolve()),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation="eager",
                output_loading_info=True,
            )
        except Exception as error:  # whatever transformers says about a folder that it cannot read
            raise ModelError(f"transformers cannot read '{folder}': {error}") from error
    absent = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if absent:
        raise ModelError(
            f"'{folder}' has no weights that fit {', '.join(absent[:3])}{' …' if len(absent) > 3 else ''}. "
            "transformers would draw them at random: train the head first, and save the whole model."
        )
    return module, describe_network(module, folder, spec)


def describe_network(module: Any, folder: Path, spec: str) -> dict[str, Any]:
    """The fields of `Card` that a network of transformers and the other files of its folder give."""
    config = module.config
    names = [str(config.id2label[number]) for number in sorted(config.id2label)]
    # By way of JSON: the numbers of the classes become texts, as they are when the card is read again.
    plain = json.loads(json.dumps({name: each for name, each in config.to_diff_dict().items() if name not in _DROPPED}))
    card: dict[str, Any] = {"classes": names, "architecture": spec, "arguments": {"config": plain}}
    if spec.endswith("SequenceClassification"):
        length = min(_USUAL_LENGTH, getattr(config, "max_position_embeddings", None) or _USUAL_LENGTH)
        card["inputs"] = {
            "leaves": [
                {"name": "input_ids", "shape": [length], "kind": "token", "size": config.vocab_size},
                {"name": "attention_mask", "shape": [length], "kind": "mask"},
            ]
        }
        return card
    if spec.endswith("ImageClassification"):
        size = getattr(config, "image_size", None)
        if isinstance(size, int):
            size = (size, size)
        if size is not None:
            card["input_shape"] = (getattr(config, "num_channels", 3), *size)
    if (folder / PROCESSOR).is_file() and spec.endswith("ImageClassification"):
        card |= read_processor(folder / PROCESSOR)
    return card


def build_hugging_face(spec: str, arguments: Mapping[str, Any], source: object) -> nn.Module:
    """The network of a config, with weights drawn anew."""
    config = arguments.get("config")
    if set(arguments) != {"config"} or not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            f'\'{source}\' names {spec}, which needs the arguments {{"config": {{"model_type": …}}}} as in a '
            f"config.json. Got {', '.join(arguments) or 'none'}."
        )
    transformers = _transformers()
    plain = {name: value for name, value in config.items() if name not in _DROPPED}
    try:
        with torch.random.fork_rng(devices=[]):
            made = transformers.AutoConfig.for_model(**plain)
            module = getattr(transformers, spec.partition(":")[2]).from_config(
                made, trust_remote_code=False, attn_implementation="eager"
            )
    except Exception as error:  # whatever transformers says about a config that it cannot use
        raise ModelError(f"transformers cannot build the network of '{source}': {error}") from error
    assert isinstance(module, nn.Module)
    return module


def _factory(config: Mapping[str, Any], folder: Path) -> str:
    """The factory for the network that a config describes; what is no classifier is refused by name."""
    named = str((config.get("architectures") or [""])[0])
    task = re.sub(r".*For(?=[A-Z])", "", named)
    spec = next((spec for spec, known in FACTORIES.items() if known == task), None)
    problem = config.get("problem_type")
    if spec is None:
        refused = next((why for ending, why in _REFUSED.items() if named.endswith(ending)), None)
        why = refused or (f"a network without a classifier ({named})" if named else "a network that it does not name")
        raise ModelError(_unsupported(folder, why))
    if problem == "multi_label_classification":
        raise ModelError(_unsupported(folder, "multi-label classification"))
    if problem == "regression" or len(config.get("id2label", {0: "", 1: ""})) < 2:
        raise ModelError(_unsupported(folder, "regression"))
    return spec


def _unsupported(folder: Path, why: str) -> str:
    return (
        f"'{folder}' is made for {why}. ModelKeep takes classifiers: one answer out of two or more classes. What is "
        'supported and what is not, and why: docs/formats.md, "Supported and not supported".'
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"'{path}' cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise ModelError(f"'{path}' should hold a JSON object. Got {type(found).__name__}.")
    return found


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("text", "transformers", "A model of Hugging Face") from error
    return transformers


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the progress bars of transformers, for this time."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
