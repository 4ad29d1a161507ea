"""Answerers: a function, a scikit-learn estimator, a URL or an ONNX session, as something that only answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from modelkeep.core.black_box import Answerer, BlackBox, Gives, Kind
from modelkeep.core.card import Card, class_names
from modelkeep.core.errors import InputError, MissingExtra, ModelError
from modelkeep.core.inputs import draw_probe
from modelkeep.core.remote import Endpoint

_PROBES = 32  # inputs on which one finds out whether scores are probabilities


def is_url(source: object) -> bool:
    """Whether it is an address on the net."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


def describe_answerer(thing: Any, gives: Gives, classes: Sequence[str] | int | None) -> Answerer:
    """What answers, and what is known about it."""
    if is_url(thing):
        return describe_url(thing, gives, classes)
    return describe_estimator(thing) if is_estimator(thing) else describe_function(thing, gives)


def make_black_box(answerer: Answerer, card: Card) -> BlackBox:
    """The module for that card; it is asked about a few random inputs."""
    probe = draw_probe(card, torch.float32, torch.device("cpu"), _PROBES)
    return BlackBox(answerer, len(card.classes), probe)


def known_about(answerer: Answerer) -> dict[str, Any]:
    """What the answerer says about itself, as fields of a card."""
    found = {"input_shape": answerer.input_shape, "classes": answerer.classes}
    return {name: value for name, value in found.items() if value is not None}


def open_answerer(
    thing: Any,
    gives: Gives | Kind,
    *,
    input_shape: Sequence[int] | None,
    classes: Sequence[str] | int | None,
    bounds: tuple[float, float] | None,
) -> tuple[BlackBox, Card]:
    """The module and the card of what answers; what it says about itself need not be given."""
    if gives == "probabilities" or gives == "logits":
        answerer = replace(describe_answerer(thing, "scores", classes), kind=gives)
    else:
        answerer = describe_answerer(thing, gives, classes)
    shape = answerer.input_shape if input_shape is None else tuple(input_shape)
    names = answerer.classes if classes is None else class_names(classes)
    if shape is None or names is None:
        missing = [name for name, known in (("input_shape", shape), ("classes", names)) if known is None]
        wanted = ", ".join(f"{name}=…" for name in missing)
        raise InputError(f"{answerer.description} does not say everything about itself. Add {wanted}.")
    card = Card(shape, names, bounds=bounds)
    return make_black_box(answerer, card), card


def is_estimator(thing: object) -> bool:
    """Whether it answers like a scikit-learn estimator."""
    return not isinstance(thing, nn.Module | type) and callable(getattr(thing, "predict", None))


def describe_function(function: object, gives: Gives) -> Answerer:
    """A plain function: its name is all that one can know about it."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    if not callable(function):
        raise ModelError(f"What answers is a function of an array, or has `predict`. Got {name}.")
    return Answerer(function, gives, f"the function {getattr(function, '__module__', '')}.{name}")


def describe_estimator(estimator: Any) -> Answerer:
    """A fitted scikit-learn classifier or pipeline: probabilities where it has them, else margins, else labels."""
    from sklearn.base import is_regressor
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    if is_regressor(estimator):
        raise ModelError(
            f"{name} is a regression. ModelKeep works on classifiers: see 'Supported and not supported' in "
            "docs/formats.md."
        )
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise ModelError(f"{name} is not fitted yet: call its fit(x, y) first.") from error
    except TypeError:
        pass  # something that predicts and is not of scikit-learn
    values = getattr(estimator, "classes_", None)
    classes = None if values is None else tuple(map(str, np.asarray(values).tolist()))
    width = getattr(estimator, "n_features_in_", None)
    shape = None if width is None else (int(width),)
    method = next(each for each in ("predict_proba", "decision_function", "predict") if hasattr(estimator, each))
    if method == "decision_function" and len(classes or ()) > 2 and _margins_of_pairs(estimator):
        method = "predict"
    ask = getattr(estimator, method)
    columns = getattr(estimator, "feature_names_in_", None)

    def answer(x: NDArray[np.float32]) -> Any:
        found = ask(_table(x, columns))
        return (
            _positions(np.asarray(found), np.asarray(values)) if method == "predict" and values is not None else found
        )

    described = " ".join(repr(estimator).split())
    gives: Gives = "labels" if method == "predict" else "scores"
    kinds: dict[str, Kind] = {"predict_proba": "probabilities", "decision_function": "logits"}
    return Answerer(answer, gives, described, shape, classes, kinds.get(method))


def _margins_of_pairs(estimator: Any) -> bool:
    """Whether a support vector machine gives a margin per pair of classes, and not per class."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    return getattr(last, "decision_function_shape", "ovr") == "ovo"


def _table(x: NDArray[np.float32], columns: Any) -> Any:
    """The rows as the estimator was fitted: with the names of the columns, if it knows them."""
    if columns is None:
        return x.reshape(len(x), -1)
    import pandas

    return pandas.DataFrame(x.reshape(len(x), -1), columns=list(columns))


def _positions(found: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Which class each label is: an estimator gives the values that it was fitted with, such as words."""
    hits = found.reshape(-1, 1) == values.reshape(1, -1)
    if not hits.any(axis=1).all():
        raise ModelError(f"The estimator gives a label that is none of its classes {values.tolist()}.")
    positions: NDArray[Any] = hits.argmax(axis=1)
    return positions


def describe_url(url: str, gives: Gives, classes: Sequence[str] | int | None) -> Answerer:
    """A model behind the Open Inference Protocol."""
    endpoint = Endpoint(url, classes=classes, labels=gives == "labels")

    def answer(x: NDArray[np.float32]) -> Any:
        rows = torch.from_numpy(x).to(endpoint.dtype)
        parts = [endpoint.infer(rows[i : i + endpoint.batch]) for i in range(0, len(rows), endpoint.batch)]
        return torch.cat(parts).numpy()

    return Answerer(answer, gives, endpoint.url, endpoint.input_shape, endpoint.classes)


def describe_onnx(path: Path) -> Answerer:
    """An ONNX file that onnxruntime runs: of a network with an operator that ModelKeep does not read."""
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra(
            "formats", "onnxruntime", f"'{path}' has operations that ModelKeep does not read, and"
        ) from error
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common root
        raise ModelError(f"onnxruntime cannot run '{path}': {error}") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    floats = [each for each in outputs if each.type in ("tensor(float)", "tensor(double)", "tensor(float16)")]
    if len(inputs) != 1 or not floats:
        raise ModelError(
            f"A classifier in ONNX takes one input and gives scores. '{path}' takes {[each.name for each in inputs]} "
            f"and gives {[each.name for each in outputs]}."
        )
    sizes = inputs[0].shape[1:]
    known = all(isinstance(size, int) for size in sizes)
    count = floats[0].shape[-1] if floats[0].shape else None
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}.get(
        inputs[0].type, np.int64 if inputs[0].type == "tensor(int64)" else np.int32
    )

    def answer(x: NDArray[np.float32]) -> Any:
        return session.run([floats[0].name], {inputs[0].name: x.astype(kind)})[0]

    classes = tuple(map(str, range(count))) if isinstance(count, int) and count > 1 else None
    return Answerer(
        answer,
        "scores",
        f"an ONNX file with SHA-256 {sha256(path.read_bytes()).hexdigest()}",
        tuple(sizes) if known else None,
        classes,
    )
