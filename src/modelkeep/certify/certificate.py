"""Certificate: per-input radii and all that they rest on, signed, in a file that somebody else can check."""

from __future__ import annotations

import json
import math
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
from modelkeep.certify.certified import Certified, certify
from modelkeep.certify.guarantees import Affinity, Guarantee, RelaxedTopK, Standard
from modelkeep.certify.rounding import Rounding
from modelkeep.certify.tracing import operations
from modelkeep.data import Data
from modelkeep.errors import InputError, ModelError
from modelkeep.files import replacing
from modelkeep.model import Model
from modelkeep.results import Estimate

if TYPE_CHECKING:
    from modelkeep.certify.signing import Signer

SLACK = 1e-6
"""By this share each radius is made smaller: room for whoever computes it again in another order."""

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


class RoundingBound(_Plain):
    """How far the network's own margins are from exact ones, given the ℓ2 sizes of its `values` at an input.

    At most `apart` · ⟨carried, sizes⟩ + `lengths` · ⟨made, sizes⟩ + `constant`, (m, m) each; where the input moves by a
    unit in ℓ2, a size moves by at most its `gain`.
    """

    values: list[str]
    gains: list[float]
    carried: list[float]
    made: list[float]
    apart: list[list[float]]
    lengths: list[list[float]]
    constant: list[list[float]]


class Promise(_Plain):
    """The guarantee: `k` is that of "top-k", `groups` are the affinity sets, as labels."""

    kind: Literal["standard", "top-k", "affinity"]
    k: int | None = None
    groups: list[list[int]] | None = None


class Example(_Plain):
    """One input: the hash of its float32 bytes, what the network says, and how far (no limit: null) that holds.

    `logits` are those of the operations in float64, `computed` those of the network itself; `carried` and `made` are
    the sums of sizes that the rounding bound needs.
    """

    sha256: str
    label: int | None
    predicted: int
    logits: list[float]
    computed: list[float]
    carried: float
    made: float
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
    rounding: RoundingBound
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
) -> Certificate:
    """Certify each input of `data`, and write down what that rests on. It is not signed yet: see `signed`.

    `labelled` says whether the labels of the data mean anything.
    """
    promise = guarantee if guarantee is not None else Standard()
    found = certify(model, data, radius, norm, guarantee=promise)
    steps, bounds = operations(model), found.bounds
    rounding, examples = _rounding(model, bounds.rounding), _examples(model, data, found, labelled)
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
        guarantee=_promise(promise),
        layers=[
            Layer(name=layer.name, end=block.name, bound=layer.bound)
            for layer, block in zip(bounds.layers, Graph(steps).blocks, strict=True)
        ],
        margins=bounds.margins.tolist(),
        rounding=rounding,
        slack=SLACK,
        summary=Summary(
            examples=len(examples),
            certified=sum(example.radius is None or example.radius > radius for example in examples),
            labelled=len(examples) if labelled else 0,
            verified=int(found.sets.gather(1, data.y[:, None]).sum()) if labelled else 0,
        ),
        inputs=examples,
    )


def _rounding(model: Model, rounding: Rounding) -> RoundingBound:
    # The float64 pass rounds, too: as the network does if that is in float64, otherwise half a billion times finer.
    both = (2.0 if model.dtype == torch.float64 else 1 + 1e-8) * (1 + 1e-8)
    return RoundingBound(
        values=list(rounding.values),
        gains=rounding.gains.tolist(),
        carried=rounding.carried.tolist(),
        made=rounding.made.tolist(),
        apart=(rounding.apart * both).tolist(),
        lengths=(rounding.lengths * both).tolist(),
        constant=(rounding.constant * both).tolist(),
    )


def _examples(model: Model, data: Data, found: Certified, labelled: bool) -> list[Example]:
    rounding = found.bounds.rounding
    computed = torch.cat([model.logits(x).cpu().double() for x, _ in data.batches(_AT_ONCE)])
    columns = zip(
        *(data.x, data.y.tolist(), found.logits, computed),
        *((found.sizes @ rounding.carried).tolist(), (found.sizes @ rounding.made).tolist()),
        (found.radii * (1 - SLACK)).tolist(),
        strict=True,
    )
    return [
        Example(
            sha256=sha256(x.contiguous().numpy().astype("<f4").tobytes()).hexdigest(),
            label=label if labelled else None,
            predicted=int(logits.argmax()),
            logits=logits.tolist(),
            computed=own.tolist(),
            carried=carried,
            made=made,
            radius=radius if math.isfinite(radius) else None,
        )
        for x, label, logits, own, carried, made, radius in columns
    ]


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
