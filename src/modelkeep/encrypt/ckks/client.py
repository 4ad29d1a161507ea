"""Client: makes the keys, encrypts the inputs, and is the only one who reads the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Self

import numpy as np
import torch

from modelkeep.core import progress
from modelkeep.core.errors import EncryptError, InputError, MissingExtra, ModelKeepError
from modelkeep.core.results import Result, Tensor, measured
from modelkeep.encrypt.ckks.exchange import Exchange
from modelkeep.encrypt.ckks.flooding import flood
from modelkeep.encrypt.ckks.keys import ClientKeys
from modelkeep.encrypt.ckks.messages import Message, pack, unpack
from modelkeep.encrypt.ckks.plan import Plan
from modelkeep.encrypt.ckks.scheme import Floats, Scheme

try:
    import httpx
except ImportError as missing:
    raise MissingExtra("encrypt", "httpx", "Asking a server about encrypted inputs") from missing

PATIENCE = 600.0  # seconds; a large network on a busy server takes minutes
LARGEST_PLAN = 64 * 2**20
DAMAGED = 100.0  # how far an answer may be off its own repetitions, in units of the error that is expected


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers(Result, kind="encrypted-answers"):
    """The decrypted logits, and what getting them took. Only the client has them: see `shareable`."""

    classes: tuple[str, ...]
    logits: Tensor
    error: float
    sent_bytes: int
    received_bytes: int
    encrypt_seconds: float
    server_seconds: float
    decrypt_seconds: float

    @property
    def labels(self) -> torch.Tensor:
        """The predicted classes, `(n,)`."""
        return self.logits.argmax(dim=1)

    def shareable(self, *, bits: int = 30, queries: int | None = None) -> torch.Tensor:
        """The logits with noise that makes it safe to give them to the server: see `flooding`."""
        return torch.from_numpy(
            flood(self.logits.numpy(), self.error, bits=bits, queries=queries or self.logits.numel())
        )

    def rows(self) -> list[tuple[str, str]]:
        """The first answers, the times and the bytes."""
        server = f"{self.server_seconds:.3f} s at the server and on the way"
        shown = [self.classes[label] for label in self.labels[:10].tolist()]
        more = f", … ({len(self.logits)} in all)" if len(self.logits) > 10 else ""
        return [
            ("answers", ", ".join(shown) + more),
            ("error", f"at most {self.error:.1e} per logit is expected"),
            ("time", f"{self.encrypt_seconds:.3f} s to encrypt, {server}, {self.decrypt_seconds:.3f} s to decrypt"),
            ("bytes", f"{self.sent_bytes:,} sent, {self.received_bytes:,} received, all of them ciphertexts"),
        ]


class Client:
    """A client of one server. The keys are made here, and the secret one stays; the first question opens a session.

    Args:
        url: where the server listens, `http://127.0.0.1:8443`.
        model: the fingerprint that the model must have; without it, any model of the server is asked.
        key: what a server with access control knows the client by; it is no key of the encryption.
        transport: how httpx reaches the server; for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, timeout=PATIENCE, transport=transport, headers=headers)
        try:
            self.plan = self._fetch_plan(url)
            if model is not None and self.plan.model != model:
                raise EncryptError(f"The server has the model {self.plan.model}; {model} was asked for.")
        except EncryptError:
            self._http.close()
            raise
        self.scheme = Scheme(self.plan.parameters)
        self.keys = ClientKeys(self.scheme)
        self._session: tuple[str, bytes] | None = None
        self._number = 0
        self._sent = self._received = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def ask(self, x: torch.Tensor) -> Answers:
        """The model's logits for `x: (n, *input_shape)`, which the server computes without seeing either."""
        inputs = self._check(x)
        self._sent = self._received = 0
        taken = np.zeros(3)
        size = 1 if self.plan.packing == "single" else self.scheme.slots
        found = []
        with (
            measured(0, self.plan.model) as provenance,
            progress.task("encrypted questions", total=len(inputs)) as task,
        ):
            for start in range(0, len(inputs), size):
                logits, seconds = self._ask_once(inputs[start : start + size])
                found.append(logits)
                taken += seconds
                task.advance(len(logits))
        return Answers(
            classes=self.plan.classes, logits=torch.from_numpy(np.concatenate(found)), error=self.plan.predicted.error,
            sent_bytes=self._sent, received_bytes=self._received, encrypt_seconds=float(taken[0]),
            server_seconds=float(taken[1]), decrypt_seconds=float(taken[2]), provenance=provenance(),
        )  # fmt: skip

    def _ask_once(self, inputs: Floats) -> tuple[Floats, Floats]:
        times = [perf_counter()]
        first = self.plan.first
        slots = first.place(inputs[0], self.scheme.slots) if first is not None else inputs.T
        parts = [self.keys.encrypt_bytes(row) for row in slots]
        times.append(perf_counter())
        answer = self._request(parts)
        times.append(perf_counter())
        ciphertexts = [self.scheme.read_ciphertext(part, what="answer") for part in answer.parts]
        if len(ciphertexts) != self.plan.answers:
            raise EncryptError(f"The answer has {len(ciphertexts)} ciphertexts where the plan has {self.plan.answers}.")
        values = np.stack([self.keys.decrypt(each) for each in ciphertexts]) / self.plan.gain
        logits = self._read_single(values[0]) if first is not None else self._read_packed(values, len(inputs))
        times.append(perf_counter())
        return logits, np.diff(times)

    def _read_single(self, slots: Floats) -> Floats:
        """The logits, after a look at the other slots: all must repeat the answer, and the padding must be zero."""
        classes = len(self.plan.classes)
        period = 1 << max(0, classes - 1).bit_length()
        repeated = slots.reshape(-1, period)
        away = max(float(np.abs(repeated - repeated[0]).max()), float(np.abs(repeated[:, classes:]).max(initial=0.0)))
        self._require_whole(away)
        return np.median(repeated[:, :classes], axis=0, keepdims=True)

    def _read_packed(self, values: Floats, samples: int) -> Floats:
        room = self.plan.parameters.room / self.plan.gain
        self._require_whole(0.0 if float(np.abs(values[:, :samples]).max()) < room else math.inf)
        return values[:, :samples].T.copy()

    def _require_whole(self, away: float) -> None:
        if not away <= DAMAGED * self.plan.predicted.error:
            raise EncryptError(
                "The answer does not decrypt to one: it was computed with other keys, or on damaged ciphertexts, or "
                "the input was far from those that the plan was made for. Ask again."
            )

    def _check(self, x: torch.Tensor) -> Floats:
        if x.dim() != 1 + len(self.plan.input_shape) or tuple(x.shape[1:]) != self.plan.input_shape or not len(x):
            raise InputError(f"The input must have the shape (n, {self.plan.input_shape}). Got {tuple(x.shape)}.")
        values = x.reshape(len(x), -1).double().numpy()
        low, high = self.plan.low, self.plan.high
        if not np.isfinite(values).all() or values.min() < low or values.max() > high:
            raise InputError(
                f"The plan was made for inputs from {low:g} to {high:g}. Got values from {values.min():g} to "
                f"{values.max():g}; larger ones could overflow unseen. Scale the inputs as the model's owner does."
            )
        return values

    def _fetch_plan(self, url: str) -> Plan:
        try:
            response = self._http.get("/plan")
        except httpx.HTTPError as error:
            raise EncryptError(f"The server at {url} cannot be reached: {error}.") from error
        if response.status_code in (401, 403, 429):
            remedy = " Set MODELKEEP_KEY, or give Client a key." if response.status_code == 401 else ""
            raise EncryptError(f"The server at {url} does not answer this client: {_read_refusal(response)}{remedy}")
        if response.status_code != 200 or len(response.content) > LARGEST_PLAN:
            raise EncryptError(f"{url} does not serve a plan (status {response.status_code}). Is it modelkeep encrypt?")
        try:
            return Plan.from_json(response.content)
        except ModelKeepError as error:
            raise EncryptError(f"The plan of {url} cannot be used: {error}") from error

    def _open(self) -> tuple[str, bytes]:
        exchange = Exchange()
        header = {"plan": self.plan.fingerprint(), "exchange": exchange.public}
        content = self._post("/sessions", pack(header, self.keys.evaluation_bytes(self.plan.steps)))
        told = unpack(content[:-32]).header  # the code at the end is checked as soon as the key is known
        name = str(told.get("session"))
        key = exchange.agree(told.get("exchange"), self.plan.fingerprint() + name)
        unpack(content, key)
        self._number = 0
        return name, key

    def _request(self, parts: list[bytes]) -> Message:
        if self._session is None:
            self._session = self._open()
        try:
            return self._try(parts)
        except _Gone:  # evicted, or the worker was started anew: the keys are sent again, once
            self._session = self._open()
            return self._try(parts)

    def _try(self, parts: list[bytes]) -> Message:
        assert self._session is not None
        name, key = self._session
        self._number += 1
        header = {"plan": self.plan.fingerprint(), "number": self._number}
        answer = unpack(self._post(f"/sessions/{name}", pack(header, parts, key)), key)
        if answer.header.get("number") != self._number:
            raise EncryptError("The server answered another question than the one asked. The answer is not used.")
        return answer

    def _post(self, path: str, content: bytes) -> bytes:
        try:
            response = self._http.post(path, content=content, headers={"content-type": "application/octet-stream"})
        except httpx.HTTPError as error:
            raise EncryptError(f"The server broke off: {error!r}. Ask again.") from error
        if response.status_code == 410:
            raise _Gone(response.text)
        if response.status_code != 200:
            raise EncryptError(f"The server refused: {_read_refusal(response)}")
        self._sent += len(content)
        self._received += len(response.content)
        return response.content


def _read_refusal(response: httpx.Response) -> str:
    """The server's sentence; access control says it in JSON."""
    try:
        told = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        told = response.text
    return str(told)[:500]


class _Gone(EncryptError):
    """The session is not open any more."""
