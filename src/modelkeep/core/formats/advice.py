"""Advice: the lines that the owner of a pickle runs where it was made, so that ModelKeep need not open it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modelkeep.core.errors import ModelError
from modelkeep.core.formats.pickles import SUFFIXES, Pickle, recognise

_LOADS = {
    "torch": ("import torch", "torch.load({path!r}, weights_only=False)"),
    "joblib": ("import joblib", "joblib.load({path!r})"),
    "pickle": ("import pickle", "pickle.load(open({path!r}, 'rb'))"),
}
# A pickle that names one of these first was made to harm.
_NO_MODELS = ("posix", "nt", "os", "sys", "subprocess", "shutil", "socket", "runpy", "importlib")
_EXAMPLE = (3, 224, 224)


def refuse_pickle(path: Path, input_shape: Sequence[int] | None, factory: str | None = None) -> None:
    """Refuse a file that is a pickle, by its content or its name, with what its owner does instead."""
    found = recognise(path)
    if found is None:
        if path.suffix.lower() not in SUFFIXES:
            return
        if not path.is_file():
            raise ModelError(f"There is no file '{path}'.")
        raise ModelError(
            f"'{path}' is neither a zip of torch.save nor a pickle. Models are read from .safetensors, .pt2 and .onnx "
            "files. Was it copied completely?"
        )
    if found.kind == "state dict":
        raise ModelError(
            f"'{path}' is a pickle of weights without their network. Convert it once, with the factory that builds the "
            f"network:\n\n    modelkeep convert {path} --factory {factory or 'package.module:factory'}\n"
        )
    if found.owner is not None and found.owner.split(":")[0].split(".")[0] in _NO_MODELS:
        raise ModelError(
            f"'{path}' is a pickle that begins by calling {found.owner.replace(':', '.')}: no model does that. Do not "
            "open it with anything."
        )
    told = {"module": _module, "torchscript": _torchscript, "object": _object}[found.kind](path, found, input_shape)
    raise ModelError(told)


def _module(path: Path, found: Pickle, input_shape: Sequence[int] | None) -> str:
    needs, load = _LOADS[found.loader]
    load = load.format(path=str(path))
    exported, weights = path.with_suffix(".pt2"), path.with_suffix(".safetensors")
    return (
        f"'{path}' is a pickled module{_of(found)}. To open it can run any code, so ModelKeep never does. "
        "Run these lines where it was made:\n\n"
        + _block(
            *dict.fromkeys([needs, "import torch"]),
            f"module = {load}.eval()",
            *_inputs(input_shape),
            "batch = torch.export.Dim('batch')",
            "program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))",
            f"torch.export.save(program, {str(exported)!r})",
        )
        + f"\nThen name '{exported}' as the model. Where torch.export refuses it, keep the weights:\n\n"
        + _block(
            needs,
            "from safetensors.torch import save_model",
            f"save_model({load}, {str(weights)!r})",
        )
        + f"\n{_with_factory(found, weights)}"
    )


def _torchscript(path: Path, found: Pickle, input_shape: Sequence[int] | None) -> str:
    exported, weights = path.with_suffix(".onnx"), path.with_suffix(".safetensors")
    load = f"torch.jit.load({str(path)!r}).eval()"
    return (
        f"'{path}' is a TorchScript program{_of(found)}, which ModelKeep does not run. "
        "Run these lines where it was made:\n\n"
        + _block(
            "import torch",
            f"module = {load}",
            *_inputs(input_shape),
            "axes = {'x': {0: 'batch'}, 'logits': {0: 'batch'}}",
            "names = {'input_names': ['x'], 'output_names': ['logits'], 'dynamic_axes': axes}",
            f"torch.onnx.export(module, (x,), {str(exported)!r}, dynamo=False, **names)",
        )
        + f"\nThen name '{exported}' as the model. Where you have the code of the network, keep the weights:\n\n"
        + _block(
            "import torch",
            "from safetensors.torch import save_file",
            f"module = {load}",
            "weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}",
            f"save_file(weights, {str(weights)!r})",
        )
        + f"\n{_with_factory(found, weights)}"
    )


def _object(path: Path, found: Pickle, input_shape: Sequence[int] | None) -> str:
    needs, load = _LOADS[found.loader]
    file = path.with_name(f"{_identifier(path.stem)}_model.py")
    return (
        f"'{path}' is a pickled object{_of(found)}. To open it can run any code, so ModelKeep never does. "
        f"Where it is yours, open it in code of your own. Write these lines to '{file.name}':\n\n"
        + _block(needs, "", "", "def estimator():", f"    return {load.format(path=str(path.absolute()))}")
        + f"\nThen name '{file.stem}:estimator' as the model. It is asked for its answers; methods that need "
        "weights say so. A model at a URL is named by the URL: http://…/v2/models/NAME."
    )


def _of(found: Pickle) -> str:
    return "" if found.owner is None else f" of class {found.owner.replace(':', '.')}"


def _inputs(input_shape: Sequence[int] | None) -> list[str]:
    note = "" if input_shape is not None else "  # two inputs; 3, 224, 224 is the shape of one: write yours"
    return [f"x = torch.rand(2, {', '.join(map(str, input_shape or _EXAMPLE))}){note}"]


def _with_factory(found: Pickle, weights: Path) -> str:
    spec = found.owner
    if spec is None or spec.startswith("torch."):
        spec = "package.module:factory"
    if spec.startswith("__main__:"):
        spec = f"mine{spec.removeprefix('__main__')}"
        moved = " Its class stood in a script: put it into a file mine.py."
    else:
        moved = ""
    return (
        f"Then name the factory that builds it: {spec} --weights {weights}; what it is called with is "
        f"--arguments '{{…}}'.{moved}"
    )


def _block(*lines: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


def _identifier(text: str) -> str:
    plain = "".join(sign if sign.isalnum() else "_" for sign in text)
    return plain if plain[:1].isalpha() else f"my_{plain}"
