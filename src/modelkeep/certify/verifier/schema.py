"""What a certificate may hold: every field, of which form, and nothing beside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .network import Refused

# A form is a type, [form] for a list of any length, {name: form} for an object with just these fields ("name?" may be
# left out), or a tuple of forms of which one must fit; None stands for null.
_INTS, _PAIRS, _NUMBERS, _MATRIX = [int], [[int]], [float], [[float]]

_WINDOWS = {"kernel": _INTS, "stride": _INTS, "padding": _PAIRS}
_SETTINGS: Mapping[str, Any] = {
    "input": {},
    "dense": {},
    "reshape": {},
    "convolution": {"stride": _INTS, "padding": _PAIRS, "dilation": _INTS, "groups": int},
    "batch_norm": {"eps": float},
    "scale": {"factor": (float, _NUMBERS), "offset": (float, _NUMBERS)},
    "average_pool": _WINDOWS,
    "max_pool": _WINDOWS | {"dilation": _INTS},
    "mean": {"axes": _INTS, "keep": bool},
    "pad": {"padding": _PAIRS},
    "permute": {"axes": _INTS},
    "downsample": {"factor": int},
    "add": {"coefficients": _NUMBERS},
    "concatenate": {"axis": int},
    "activation": {"function": str, "slope?": float, "alpha?": float, "low?": float, "high?": float},
    "group_sort": {"size": int},
}
_TENSORS: Mapping[str, Any] = {
    "dense": {"weight": str, "bias?": str},
    "convolution": {"weight": str, "bias?": str},
    "batch_norm": {"mean": str, "variance": str, "weight?": str, "bias?": str},
    "scale": {"factor?": str, "offset?": str},
}
_CERTIFICATE: Mapping[str, Any] = {
    "format": str,
    "version": int,
    "made": {"time": str, "modelkeep": str, "torch": str, "python": str},
    "model": {
        "name": str,
        "fingerprint": str,
        "input_shape": _INTS,
        "classes": [str],
        "mean": _NUMBERS,
        "std": _NUMBERS,
        "dtype": str,
        "warnings?": [str],
    },
    "operations": [
        {"name": str, "kind": str, "inputs": [str], "shape": _INTS, "settings": dict, "tensors": dict},
    ],
    "weights": {"sha256": str, "tensors": dict},
    "norm": str,
    "radius": float,
    "guarantee": {"kind": str, "k": (int, None), "groups": ([_INTS], None)},
    "layers": [{"name": str, "end": str, "bound": float}],
    "margins": _MATRIX,
    "rounding": {
        "values": [str],
        "gains": _NUMBERS,
        "carried": _NUMBERS,
        "made": _NUMBERS,
        "apart": _MATRIX,
        "lengths": _MATRIX,
        "constant": _MATRIX,
    },
    "slack": float,
    "summary": {"examples": int, "certified": int, "labelled": int, "verified": int},
    "inputs": [
        {
            "sha256": str,
            "label": (int, None),
            "predicted": int,
            "logits": _NUMBERS,
            "computed": _NUMBERS,
            "carried": float,
            "made": float,
            "radius": (float, None),
        }
    ],
    "public_key": str,
    "signature": str,
}
_SINCE_2: Mapping[str, Any] = {
    "data": {"name": str, "rows": int, "seed": int, "chosen": (_INTS, None)},
    "binds": {"network": str, "data": str},
}
_LARGEST = 10**300  # so that every number is one of float64
_TENSOR = {"dtype": str, "shape": _INTS, "sha256": str}


def require_form(claims: Mapping[str, Any]) -> None:
    """Refuse a certificate with a field that is missing, of another form, or not known."""
    _require(claims, dict(_CERTIFICATE) | (dict(_SINCE_2) if claims["version"] >= 2 else {}), "the certificate")
    for name, record in claims["weights"]["tensors"].items():
        _require(record, _TENSOR, f"the tensor '{name}'")
    for step in claims["operations"]:
        where = f"the operation '{step['name']}'"
        if step["kind"] not in _SETTINGS:
            raise Refused(f"In {where}: the kind '{step['kind']}' is not one that this verifier knows.")
        _require(step["settings"], _SETTINGS[step["kind"]], f"the settings of {where}")
        _require(step["tensors"], _TENSORS.get(step["kind"], {}), f"the tensors of {where}")
    used = {key for step in claims["operations"] for key in step["tensors"].values()}
    if used != set(claims["weights"]["tensors"]):
        raise Refused("The tensors that are named are not those that the operations use.")


def require_promise(claims: Mapping[str, Any]) -> str:
    """The promise in words; refused where its numbers promise nothing, whatever the network."""
    m, guarantee, radius = len(claims["model"]["classes"]), claims["guarantee"], claims["radius"]
    if not 0 < radius < math.inf:
        raise Refused(f"A radius of {radius} promises nothing: it must be above 0.")
    if not 0 <= claims["slack"] < 1:
        raise Refused(f"The slack of {claims['slack']} is not a share below 1.")
    if len(set(claims["model"]["classes"])) != m:
        raise Refused("Two classes have the same name.")
    if guarantee["kind"] == "top-k":
        if guarantee["groups"] is not None or guarantee["k"] is None or not 1 <= guarantee["k"] < m:
            raise Refused(f"The top {guarantee['k']} of {m} classes promise nothing: k must be from 1 to {m - 1}.")
        return f"top-{guarantee['k']} guarantee"
    if guarantee["kind"] == "affinity":
        groups = guarantee["groups"]
        if guarantee["k"] is not None or not groups or any(len(set(group)) != len(group) for group in groups):
            raise Refused("The affinity guarantee has no groups, or one that names a class twice.")
        if not all(0 <= label < m for group in groups for label in group):
            raise Refused(f"An affinity group names a class that is none of the {m}.")
        if any(len(group) == m for group in groups):
            raise Refused("An affinity group of all classes promises nothing: every answer is in it.")
        return f"affinity guarantee, {len(groups)} groups"
    if guarantee["kind"] != "standard" or guarantee["k"] is not None or guarantee["groups"] is not None:
        raise Refused(f"This verifier does not know the guarantee '{guarantee['kind']}'.")
    return "standard guarantee"


def _require(value: Any, form: Any, where: str) -> None:
    if isinstance(form, tuple):
        if value is None and None in form:
            return
        form = next((each for each in form if isinstance(each, list) == isinstance(value, list) and each), form[0])
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise Refused(f"In {where} there should be an object, and is a {type(value).__name__}.")
        known = {name.removesuffix("?"): each for name, each in form.items()}
        for name in value:
            if name not in known:
                raise Refused(f"In {where} there is a field '{name}' that this verifier does not know.")
        for name, each in form.items():
            if name in value:
                _require(value[name], each, f"'{name}' of {where}")
            elif not name.endswith("?"):
                raise Refused(f"In {where} the field '{name}' is missing.")
            elif name.removesuffix("?") in value:
                _require(value[name.removesuffix("?")], each, f"'{name.removesuffix('?')}' of {where}")
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise Refused(f"In {where} there should be a list, and is a {type(value).__name__}.")
        for each in value:
            _require(each, form[0], where)
    else:
        fits = (int, float) if form is float else form
        if form is float and isinstance(value, int) and abs(value) > _LARGEST:
            raise Refused(f"In {where} there is a number beyond all bounds.")
        if not isinstance(value, fits) or (isinstance(value, bool) and form is not bool):
            raise Refused(f"In {where} there should be a {form.__name__}, and is {value!r:.40}.")
