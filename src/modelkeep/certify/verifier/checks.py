"""What is checked of a certificate, and what each check says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import files
from .arithmetic import Array
from .binding import Given, compare_data, compare_labels, compare_model, require_binding
from .constants import ORDER, Constants, constants
from .network import Network, Refused
from .radii import PAIRS, claimed_radius, error_at, own_radius
from .report import Check, Report
from .schema import require_form, require_promise

_TOLERANCE = 1e-9  # relative: two float64 computations of one number
_FLOAT64 = 1e-8  # a float64 pass rounds at least that much finer than a float32 pass: 2**-29, and a few of them
_AT_ONCE = 64  # inputs


def verify(
    certificate: Path, *, weights: Path | None = None, data: Given | None = None, signer: str | None = None
) -> Report:
    """Check the certificate, against the weights and the whole data set where they are given."""
    try:
        claims = files.read_certificate(certificate)
    except Refused as error:
        return Report((Check("certificate", "fails", str(error)),))
    checks: list[Check] = []
    try:
        checks += _signature(claims, signer)
        return _verify(claims, weights, data, checks)
    except Refused as error:
        checks.append(Check("content", "fails", str(error)))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        checks.append(Check("content", "fails", f"The certificate does not fit together: {error!r}."))
    return Report(tuple(checks))


def _verify(claims: Mapping[str, Any], weights: Path | None, data: Given | None, checks: list[Check]) -> Report:
    """All checks of the content, added to `checks`."""
    require_form(claims)
    try:
        promise = require_promise(claims)
    except Refused as error:
        return Report((*checks, Check("promise", "fails", str(error))))
    checks += [Check("promise", "holds", f"{promise}, {claims['norm']}, radius {claims['radius']:g}."), _shapes(claims)]
    if checks[-1].status == "fails":
        return Report(tuple(checks))
    network, found, shown, card = None, None, None, None
    checks.append(_weights(claims, weights))
    if weights is not None and checks[-1].status == "holds":
        stored, card = files.read_weights(weights)
        network = Network(claims["operations"], {name: stored[name].array() for name in claims["weights"]["tensors"]})
        found = constants(network, claims["norm"])
    checks += [
        _compared("model", lambda: compare_model(claims, card, data)),
        _compared("binding", lambda: (claims["version"] >= 2, require_binding(claims))),
        *_of_data(claims, data),
    ]
    checks += [_layers(claims, found), _margins(claims, found), _logits(claims, network, data)]
    checks += [_radii(claims), _summary(claims)]
    claimed = sum(claimed_radius(entry) > claims["radius"] for entry in claims["inputs"])
    if found is not None:
        own = [own_radius(claims, entry, found.upper)[0] for entry in claims["inputs"]]
        shown = sum(radius > claims["radius"] for radius in own)
        short = sum(claimed_radius(entry) > radius for entry, radius in zip(claims["inputs"], own, strict=True))
        says = f"With the verifier's own constants {shown} inputs are certified at {claims['radius']:g}, of {claimed}."
        checks.append(Check("own radii", "open" if short else "holds", says))
    return Report(
        tuple(checks),
        files.fingerprint(claims["public_key"]),
        claims["norm"],
        promise,
        float(claims["radius"]),
        len(claims["inputs"]),
        claimed,
        shown,
    )


def _signature(claims: Mapping[str, Any], signer: str | None) -> list[Check]:
    if not files.is_signed(claims):
        says = "The content is not what was signed, or the signature is not of this key."
        return [Check("signature", "fails", says)]
    key = files.fingerprint(claims["public_key"])
    signed = Check("signature", "holds", f"The content is what the key {key} signed.")
    if signer is None:
        says = f"Anybody can sign. Ask the signer you trust for the fingerprint, and give it: --signer. This is {key}."
        return [signed, Check("signer", "not checked", says)]
    if signer.strip().lower() not in (key, claims["public_key"]):
        return [signed, Check("signer", "fails", f"Signed by {key}, not by {signer}.")]
    return [signed, Check("signer", "holds", f"Signed by {key}, as expected.")]


def _compared(name: str, compare: Callable[[], tuple[bool, str]]) -> Check:
    """The check that a comparison makes, which raises `Refused` where it fails."""
    try:
        shown, says = compare()
    except Refused as error:
        return Check(name, "fails", str(error))
    return Check(name, "holds" if shown else "open", says)


def _of_data(claims: Mapping[str, Any], data: Given | None) -> list[Check]:
    if data is None:
        return [Check(name, "not checked", "Give --data, the whole data set.") for name in ("data", "labels")]
    shape = tuple(claims["model"]["input_shape"])
    if data.x.shape[1:] != shape:
        raise Refused(f"The inputs must have the shape {shape}. Got {data.x.shape[1:]}.")
    return [
        _compared("data", lambda: compare_data(claims, data)),
        _compared("labels", lambda: compare_labels(claims, data)),
    ]


def _shapes(claims: Mapping[str, Any]) -> Check:
    m, operations = len(claims["model"]["classes"]), claims["operations"]
    if operations[0]["shape"] != claims["model"]["input_shape"] or operations[-1]["shape"] != [m]:
        return Check("shapes", "fails", "The network has another input shape, or not one logit per class.")
    rounding = claims["rounding"]
    for matrix in (np.asarray(place, np.float64) for place in (claims["margins"], *(rounding[name] for name in PAIRS))):
        if matrix.shape != (m, m) or not (matrix >= 0).all():
            return Check("shapes", "fails", f"A bound for pairs of classes is not {m} × {m} numbers, none below 0.")
    for weights in (np.asarray(rounding[name], np.float64) for name in ("gains", "carried", "made")):
        if weights.shape != (len(rounding["values"]),) or not (weights >= 0).all():
            return Check("shapes", "fails", "The rounding bound needs a number per value, none below 0.")
    dtypes = {record["dtype"] for record in claims["weights"]["tensors"].values()}
    if claims["model"]["dtype"] not in ("float32", "float64") or (
        claims["model"]["dtype"] == "float64" and dtypes != {"F64"}
    ):
        return Check("shapes", "fails", "The type of the network is not that of its weights.")
    if any(not (entry["label"] is None or 0 <= entry["label"] < m) for entry in claims["inputs"]):
        return Check("shapes", "fails", f"A label is none of the {m} classes.")
    if claims["norm"] not in ORDER or any(
        len(entry[own]) != m for own in ("logits", "computed") for entry in claims["inputs"]
    ):
        return Check("shapes", "fails", f"An input has not {m} logits, or the norm is none of {', '.join(ORDER)}.")
    return Check("shapes", "holds", f"{len(operations)} operations, {m} classes, {len(claims['inputs'])} inputs.")


def _weights(claims: Mapping[str, Any], path: Path | None) -> Check:
    if path is None:
        return Check("weights", "not checked", "Give --weights.")
    try:
        stored, _ = files.read_weights(path)
    except Refused as error:
        return Check("weights", "fails", str(error))
    tensors = claims["weights"]["tensors"]
    for name, record in tensors.items():
        if name not in stored:
            return Check("weights", "fails", f"The file has no tensor '{name}'.")
        if stored[name].record() != record:
            return Check("weights", "fails", f"The tensor '{name}' is not the one that was certified.")
        if stored[name].dtype not in ("F32", "F64") or not np.isfinite(stored[name].array()).all():
            return Check("weights", "fails", f"The tensor '{name}' is not of finite float32 or float64 numbers.")
    if hashlib.sha256(files.canonical(tensors)).hexdigest() != claims["weights"]["sha256"]:
        return Check("weights", "fails", "The hash over all tensors is not that of their hashes.")
    return Check("weights", "holds", f"All {len(tensors)} tensors have the hashes of the certificate.")


def _layers(claims: Mapping[str, Any], found: Constants | None) -> Check:
    """No layer's constant is below what the layer needs. (That the K_ij are large enough is the next check.)"""
    if found is None:
        return Check("layers", "not checked", "Give --weights.")
    bounds = {layer["end"]: float(layer["bound"]) for layer in claims["layers"]}
    for end, known in found.blocks.items():
        if end not in bounds:
            return Check("layers", "fails", f"There is no constant for '{end}'.")
        if not bounds[end] >= known.lower * (1 - _TOLERANCE):
            return Check("layers", "fails", f"'{end}' has {bounds[end]:.6g}, and needs {known.lower:.6g} at least.")
    return Check("layers", "holds", f"None of the {len(found.blocks)} is below what it needs.")


def _margins(claims: Mapping[str, Any], found: Constants | None) -> Check:
    """Fails where a K_ij is below what it must be; open where it is below what can be shown to be enough."""
    if found is None:
        return Check("margins", "not checked", "Give --weights.")
    K = np.asarray(claims["margins"], np.float64)
    if not (K >= found.lower * (1 - _TOLERANCE)).all():
        i, j = np.argwhere(~(K >= found.lower * (1 - _TOLERANCE)))[0]
        pair = " and ".join(claims["model"]["classes"][label] for label in (i, j))
        return Check("margins", "fails", f"K of {pair} is {K[i, j]:.6g}, and must be at least {found.lower[i, j]:.6g}.")
    unshown = int((K < found.upper * (1 - _TOLERANCE)).sum())
    if unshown:
        return Check("margins", "open", f"{unshown} of {K.size} are below the verifier's own upper bounds.")
    return Check("margins", "holds", f"All {K.size} are large enough.")


def _logits(claims: Mapping[str, Any], network: Network | None, data: Given | None) -> Check:
    """The network as written down gives the logits that are claimed, and the owner's own up to rounding.

    That the rounding bound holds is seen here for these inputs; for others it is the sender's word.
    """
    if network is None or data is None:
        return Check("logits", "not checked", "Give --weights and --data.")
    rounding = claims["rounding"]
    given = dict(zip(data.rows(), np.ascontiguousarray(data.x, "<f4"), strict=True))
    entries = [entry for entry in claims["inputs"] if entry["sha256"] in given]
    if not entries:
        return Check("logits", "fails", "None of the certified inputs is in the data.")
    finer = _FLOAT64 if claims["model"]["dtype"] == "float32" else 1.0
    for start in range(0, len(entries), _AT_ONCE):
        some = entries[start : start + _AT_ONCE]
        x = np.stack([given[entry["sha256"]] for entry in some])
        values, rounded = network.values(x), network.values(x, rounded=finer != 1.0)[network.last]
        sizes = np.array(
            [np.sqrt((values[name].reshape(len(some), -1) ** 2).sum(axis=1)) for name in rounding["values"]]
        )
        for i, entry in enumerate(some):
            what = f"the input {entry['sha256'][:12]}…"
            for sums in ("carried", "made"):
                if not float(entry[sums]) >= np.dot(rounding[sums], sizes[:, i]) * (1 - _TOLERANCE):
                    return Check("logits", "fails", f"Those of {what} are rounded more than is claimed.")
            error = error_at(claims, entry)
            exact, claim, owners = values[network.last][i], np.asarray(entry["logits"]), np.asarray(entry["computed"])
            if not (_apart(claim - exact) <= error * finer).all():
                return Check("logits", "fails", f"Those of {what} are not this network's.")
            if not (_apart(rounded[i] - exact) <= error).all():
                return Check("logits", "fails", f"Those of {what} are rounded more by float32 than is claimed.")
            if not (_apart(owners - exact) <= error).all():
                return Check("logits", "fails", f"Those that the owner computed of {what} are not this network's.")
    if len(entries) < len(claims["inputs"]):
        return Check(
            "logits", "open", f"{len(entries)} of {len(claims['inputs'])} inputs are in the data; theirs agree."
        )
    return Check("logits", "holds", f"Those of all {len(entries)} inputs agree with the network, within the rounding.")


def _apart(logits: Array) -> Array:
    """How far each two of them are apart."""
    return np.asarray(np.abs(np.subtract.outer(logits, logits)))


def _radii(claims: Mapping[str, Any]) -> Check:
    """No radius is larger than the logits and the claimed constants give, and no class is wrong."""
    K = np.asarray(claims["margins"], np.float64)
    for entry in claims["inputs"]:
        reach, _ = own_radius(claims, entry, K)
        if entry["predicted"] != int(np.argmax(entry["logits"])):
            return Check("radii", "fails", f"The input {entry['sha256'][:12]}… is predicted to be another class.")
        claim = claimed_radius(entry)
        if not 0 <= claim <= reach * (1 + _TOLERANCE):
            says = f"The radius of the input {entry['sha256'][:12]}… is {claim:.6g}, and can be {reach:.6g} at most."
            return Check("radii", "fails", says)
    return Check("radii", "holds", f"All {len(claims['inputs'])} follow from the logits and the constants.")


def _summary(claims: Mapping[str, Any]) -> Check:
    entries, K, summary = claims["inputs"], np.asarray(claims["margins"], np.float64), claims["summary"]
    labelled = [entry for entry in entries if entry["label"] is not None]
    counts = {
        "examples": len(entries),
        "certified": sum(claimed_radius(entry) > claims["radius"] for entry in entries),
        "labelled": len(labelled),
        "verified": sum(entry["label"] in own_radius(claims, entry, K)[1] for entry in labelled),
    }
    # A sender who rounds with care may count fewer as verified, never more.
    wrong = [name for name, n in counts.items() if summary[name] > n or (name != "verified" and summary[name] != n)]
    if wrong:
        return Check("summary", "fails", f"It says {summary[wrong[0]]} {wrong[0]}, but it is {counts[wrong[0]]}.")
    return Check("summary", "holds", ", ".join(f"{count} {name}" for name, count in counts.items()) + ".")
