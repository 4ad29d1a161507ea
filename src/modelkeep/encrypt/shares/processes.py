"""Processes: the three parties and the dealer as four processes of this machine, over real TLS.

Each process makes its own key. The one that starts them hands the weights to the owner of the model alone, the data to
their owner alone, and tells everybody the others' public keys and addresses: what an invitation would hold.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter
from torch import Tensor

from modelkeep.core.errors import GovernError
from modelkeep.encrypt.shares.meeting import Meeting
from modelkeep.encrypt.shares.programs import DATA_OWNER, MODEL_OWNER, Plan, Secrets
from modelkeep.encrypt.shares.ring import ShareRing
from modelkeep.encrypt.shares.roles import Outcome, run_dealer, run_party
from modelkeep.encrypt.shares.traffic import Traffic
from modelkeep.govern.identity import Identity

NAMES = ("model-owner", "data-owner", "third")
DEALER = "dealer"


@dataclass(frozen=True)
class Report:
    """What a process says at the end: its outcome in figures, the tensors in base64, and its peak memory."""

    found: str
    traffic: Traffic
    wire_sent: int
    seconds: float
    memory: int


def run_in_processes(
    plan: Plan, secrets: Secrets, ring: ShareRing, *, seed: int | None = None
) -> tuple[dict[str, Outcome], dict[str, int]]:
    """Run a plan in four processes: each role's outcome and its peak memory in bytes, by name."""
    owned = {
        NAMES[MODEL_OWNER]: Secrets(secrets.weights),
        NAMES[DATA_OWNER]: Secrets(None, secrets.x, secrets.y),
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="modelkeep-shares-")))
        roles = {name: stack.enter_context(_Process(name, folder)) for name in (*NAMES, DEALER)}
        public_keys = {name: role.hear("public key") for name, role in roles.items()}
        meeting = Meeting(token_hex(16), NAMES, DEALER, public_keys, plan, ring)
        agreed = TypeAdapter(Meeting).dump_python(meeting, mode="json")
        for role in roles.values():
            role.say({"meeting": agreed})
        addresses = {name: roles[name].hear("address") for name in NAMES}
        for name, role in roles.items():
            brought = owned.get(name, Secrets())
            role.say({"addresses": addresses, "seed": seed, "secrets": _pack(_flatten(brought))})
        reports = {name: TypeAdapter(Report).validate_python(role.hear("report")) for name, role in roles.items()}
    outcomes = {
        name: Outcome(list(_unpack(report.found).values()), report.traffic, report.wire_sent, report.seconds)
        for name, report in reports.items()
    }
    return outcomes, {name: report.memory for name, report in reports.items()}


class _Process:
    """One role in a process of its own: lines of JSON in and out."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, name, str(folder / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._process.kill()
        self._process.communicate()

    def say(self, values: Mapping[str, Any]) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(values) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise GovernError(f"The process of '{self._name}' ended early; what it said stands above.") from error

    def hear(self, what: str) -> Any:
        """The value that the process reports next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise GovernError(f"The process of '{self._name}' ended before it told its {what}.")
        values = json.loads(line)
        if "error" in values:
            raise GovernError(f"'{self._name}' could not go on. {values['error']}")
        return values[what]


def _play(name: str, folder: str) -> dict[str, Any]:
    """The life of one process."""
    import resource

    identity = Identity.at(folder, name)
    _tell({"public key": identity.public_key})
    meeting = TypeAdapter(Meeting).validate_python(_read()["meeting"])
    if name == meeting.dealer:
        told = _read()
        outcome = run_dealer(meeting, identity, told["addresses"], seed=told["seed"])
    else:
        listener = meeting.open_endpoint(identity).listen("127.0.0.1:0")
        _tell({"address": listener.address})
        told = _read()
        secrets = _restore(_unpack(told["secrets"]))
        outcome = run_party(meeting, identity, listener, told["addresses"], secrets, seed=told["seed"])
        listener.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    found = _pack({str(number): tensor for number, tensor in enumerate(outcome.found)})
    return asdict(Report(found, outcome.traffic, outcome.wire_sent, outcome.seconds, memory))


def _flatten(secrets: Secrets) -> dict[str, Tensor]:
    flat = {name: value for name in ("x", "y") if (value := getattr(secrets, name)) is not None}
    for number, (weight, bias) in enumerate(secrets.weights or []):
        flat[f"weight {number}"], flat[f"bias {number}"] = weight, bias
    return flat


def _restore(flat: Mapping[str, Tensor]) -> Secrets:
    count = sum(name.startswith("weight") for name in flat)
    weights = [(flat[f"weight {number}"], flat[f"bias {number}"]) for number in range(count)]
    return Secrets(weights or None, flat.get("x"), flat.get("y"))


def _pack(tensors: Mapping[str, Tensor]) -> str:
    from safetensors.torch import save

    return b64encode(save({name: tensor.contiguous() for name, tensor in tensors.items()})).decode()


def _unpack(text: str) -> dict[str, Tensor]:
    from safetensors.torch import load

    tensors: dict[str, Tensor] = load(b64decode(text))
    return dict(sorted(tensors.items(), key=lambda item: (len(item[0]), item[0])))


def _tell(values: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _read() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(sys.stdin.readline())
    return values


if __name__ == "__main__":
    try:
        _tell({"report": _play(*sys.argv[1:])})
    except Exception as error:
        _tell({"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
