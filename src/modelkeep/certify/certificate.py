"""Certificate: per-input radii and all that they rest on, signed, in a file that somebody else can check."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict

from modelkeep import __version__
from modelkeep.attack.ball import Norm
from modelkeep.certify.blocks import Graph
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.lipschitz import Lipschitz, lipschitz
from modelkeep.certify.tracing import operations
from modelkeep.data import Data
from modelkeep.errors import InputError, ModelError, bad_parameter
from modelkeep.files import replacing
from modelkeep.model import Model
from modelkeep.progress import task
from modelkeep.results import Estimate

if TYPE_CHECKING:
    from modelkeep.certify.signing import Signer

SLACK = 1e-6
"""By this share each radius is made smaller: room for whoever computes it again in another order."""

_LENGTH = 1 + 1e-9  # outward, for the rounding of the length itself
_DTYPES = {torch.float32: "F32", torch.float64: "F64"}  # as safetensors calls them
_AT_ONCE = 256


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


class Made(_Plain):
    """When, and by which versions."""

    time: str
    modelkeep: str
    torch: str
    python: str


class CertifiedModel(_Plain):
    """What was certified: the network as its owner knows it."""

    name: str
    fingerprint: str
    input_shape: list[int]
    classes: list[str]
    mean: list[float]
    std: list[float]
    dtype: str


class Step(_Plain):
    """One operation, as `modelkeep.certify.operations` explains them."""

    name: str
    kind: str
    inputs: list[str]
    shape: list[int]
    settings: dict[str, Any]
    tensors: dict[str, str]


class StoredTensor(_Plain):
    """A weight: its bytes, as a safetensors file holds them, have this hash."""

    dtype: str
    shape: list[int]
    sha256: str


class Weights(_Plain):
    """All tensors that the operations use; `sha256` is over their records as canonical JSON."""

    sha256: str
    tensors: dict[str, StoredTensor]


class Layer(_Plain):
    """The constant of an affine stretch that ends with the operation `end`."""

    name: str
    end: str
    bound: float


class Promise(_Plain):
    """The guarantee: `k` is that of "top-k", `groups` are the affinity sets, as labels."""

    kind: Literal["standard", "top-k", "affinity"]
    k: int | None = None
    groups: list[list[int]] | None = None


class Example(_Plain):
    """One input: the hash of its float32 bytes, what the network says, and how far (no limit: null) that holds."""

    sha256: str
    label: int | None
    predicted: int
    logits: list[float]
    length: float
    radius: float | None


class Summary(_Plain):
    """How many inputs there are, are certified at the radius, have a label, and have it within what is certified."""

    examples: int
    certified: int
    labelled: int
    verified: int

    @property
    def verified_accuracy(self) -> Estimate | None:
        """VRA, RTK VRA or affinity VRA, as the guarantee is."""
        return Estimate.rate(self.verified, self.labelled) if self.labelled else None


class Certificate(_Plain):
    """Everything that a verifier needs beside the weights and the inputs. Raise `version` when a field changes."""

    format: Literal["modelkeep certificate"] = "modelkeep certificate"
    version: Literal[1] = 1
    made: Made
    model: CertifiedModel
    operations: list[Step]
    weights: Weights
    norm: Norm
    radius: float
    guarantee: Promise
    layers: list[Layer]
    margins: list[list[float]]
    rounding_slope: list[list[float]]
    rounding_offset: list[list[float]]
    slack: float
    summary: Summary
    inputs: list[Example]
    public_key: str = ""
    signature: str = ""

    def signed(self, signer: Signer) -> Certificate:
        """The same, with the public key and the signature of all the rest."""
        keyed = self.model_copy(update={"public_key": signer.public_key, "signature": ""})
        content = keyed.model_dump(mode="json", exclude={"signature"})
        return keyed.model_copy(update={"signature": signer.sign(canonical(content))})

    def write(self, path: Path) -> Path:
        """Write it whole or not at all: a line per field, operation and input."""
        content = self.model_dump(mode="json")
        lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in content.items()]
        try:
            with replacing(path) as unfinished:
                unfinished.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"'{path}' cannot be written: {error.strerror}.") from error
        return path


def canonical(content: Any) -> bytes:
    """The one way to write JSON that is signed and hashed.

    >>> canonical({"b": 1.0, "a": "ε"})
    b'{"a":"\\xce\\xb5","b":1.0}'
    """
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def certificate(
    model: Model,
    data: Data,
    radius: float,
    *,
    norm: Norm = "l2",
    guarantee: Guarantee | None = None,
    labelled: bool = True,
    name: str = "model",
    bounds: Lipschitz | None = None,
) -> Certificate:
    """Certify each input of `data`, and write down what that rests on. It is not signed yet: see `signed`.

    `labelled` says whether the labels of the data mean anything. `bounds` are those of `lipschitz(model, norm)`,
    where they are known already.
    """
    if not 0 < radius < float("inf"):
        raise bad_parameter("certificate", "radius", "a number above 0", radius)
    model.require_fit(data)
    guarantee = guarantee if guarantee is not None else Standard()
    bounds = bounds if bounds is not None else lipschitz(model, norm)
    if bounds.norm != norm:
        raise InputError(f"The bounds are for {bounds.norm}, the certificate is to be for {norm}.")
    steps = operations(model)
    examples, verified = _examples(model, data, radius, bounds, guarantee, labelled)
    certified = sum(example.radius is None or example.radius > radius for example in examples)
    counts = {"labelled": len(examples) if labelled else 0, "verified": verified if labelled else 0}
    preprocessing = model.card.preprocessing
    return Certificate(
        made=Made(
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            modelkeep=__version__,
            torch=torch.__version__,
            python=platform.python_version(),
        ),
        model=CertifiedModel(
            name=name,
            fingerprint=model.fingerprint(),
            input_shape=list(model.input_shape),
            classes=list(model.classes),
            mean=list(preprocessing.mean),
            std=list(preprocessing.std),
            dtype=str(model.dtype).removeprefix("torch."),
        ),
        operations=[Step.model_validate(json.loads(json.dumps(asdict(step)))) for step in steps],
        weights=_weights(model, sorted({key for step in steps for key in step.tensors.values()})),
        norm=norm,
        radius=radius,
        guarantee=_promise(guarantee),
        layers=[
            Layer(name=layer.name, end=block.name, bound=layer.bound)
            for layer, block in zip(bounds.layers, Graph(steps).blocks, strict=True)
        ],
        margins=bounds.margins.tolist(),
        rounding_slope=bounds.rounding_slope.tolist(),
        rounding_offset=bounds.rounding_offset.tolist(),
        slack=SLACK,
        summary=Summary(examples=len(examples), certified=certified, **counts),
        inputs=examples,
    )


def _examples(
    model: Model, data: Data, radius: float, bounds: Lipschitz, guarantee: Guarantee, labelled: bool
) -> tuple[list[Example], int]:
    """The inputs, and how many have their label within what is certified at the radius."""
    examples, verified = [], 0
    with task("Certifying", total=len(data)) as progress:
        for x, y in data.batches(_AT_ONCE):
            logits, fixed = model.logits(x).cpu().double(), bounds.fixed(x)
            radii = guarantee.radius(logits, bounds.rate, fixed) * (1 - SLACK)
            verified += int(guarantee.verified(logits, radius * (1 + SLACK) * bounds.rate + fixed, y).sum())
            lengths = x.double().flatten(1).norm(dim=1) * _LENGTH
            for row, label, scores, length, reach in zip(x, y, logits, lengths, radii, strict=True):
                examples.append(
                    Example(
                        sha256=sha256(row.contiguous().numpy().astype("<f4").tobytes()).hexdigest(),
                        label=int(label) if labelled else None,
                        predicted=int(scores.argmax()),
                        logits=scores.tolist(),
                        length=float(length),
                        radius=float(reach) if torch.isfinite(reach) else None,
                    )
                )
            progress.advance(len(x))
    return examples, verified


def _weights(model: Model, keys: Sequence[str]) -> Weights:
    tensors = {}
    state = model.module.state_dict()
    for key in keys:
        if key not in state:
            raise ModelError(f"'{key}' is in no state_dict, so that no file holds it. Make it a persistent buffer.")
        tensor = state[key].detach().cpu()
        if tensor.dtype not in _DTYPES:
            raise ModelError(f"Only float32 and float64 weights can be certified. '{key}' is {tensor.dtype}.")
        raw = tensor.contiguous().numpy().tobytes()
        tensors[key] = StoredTensor(
            dtype=_DTYPES[tensor.dtype], shape=list(tensor.shape), sha256=sha256(raw).hexdigest()
        )
    content = {key: tensor.model_dump(mode="json") for key, tensor in tensors.items()}
    return Weights(sha256=sha256(canonical(content)).hexdigest(), tensors=tensors)


def _promise(guarantee: Guarantee) -> Promise:
    if isinstance(guarantee, Affinity):
        labels = {name: label for label, name in enumerate(guarantee.classes)}
        return Promise(kind="affinity", groups=[[labels[name] for name in group] for group in guarantee.groups])
    if isinstance(guarantee, RelaxedTopK):
        return Promise(kind="top-k", k=guarantee.k)
    if isinstance(guarantee, Standard):
        return Promise(kind="standard")
    raise InputError(f"A certificate cannot say what a {type(guarantee).__name__} promises.")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(f" {json.dumps(item, ensure_ascii=False)}" for item in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)
