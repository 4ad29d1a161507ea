"""Arithmetic: sums, products and rotations of ciphertexts, with their levels and scales kept in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelkeep.core.errors import EncryptError
from modelkeep.encrypt.ckks.keys import EvaluationKeys
from modelkeep.encrypt.ckks.scheme import Floats, Scheme, seal


class Arithmetic:
    """Computes on ciphertexts with a client's evaluation keys. Nothing here can decrypt.

    A product with a plaintext is encoded so that its result, once rescaled, has exactly the scale of the parameters;
    sums of results then fit each other without a correction.
    """

    def __init__(self, scheme: Scheme, keys: EvaluationKeys) -> None:
        self.scheme = scheme
        self.keys = keys
        self._evaluator = scheme.evaluator

    def encode_factor(self, values: Sequence[float] | Floats | float, like: Any) -> Any:
        """A plaintext at the level of `like` whose product with it has the usual scale once it is rescaled."""
        return self.scheme.encode(values, level=self.scheme.level(like), scale=self.factor_scale(like))

    def factor_scale(self, like: Any) -> float:
        """The scale of a plaintext factor of `like`."""
        return self.scheme.parameters.scale * self.scheme.prime(self.scheme.level(like)) / float(like.scale)

    def multiply_plain(self, ciphertext: Any, factor: Any) -> Any:
        """The product with a plaintext of `encode_factor`, not yet rescaled, so that many can be summed first."""
        self._require_level(ciphertext)
        product = seal.Ciphertext()
        self._evaluator.multiply_plain(ciphertext, factor, product)
        return product

    def rescale(self, ciphertext: Any) -> Any:
        """One level down; the scale is divided by the prime that goes. Changes and returns `ciphertext`."""
        self._require_level(ciphertext)
        self._evaluator.rescale_to_next_inplace(ciphertext)
        return ciphertext

    def square(self, ciphertext: Any) -> Any:
        """The square, relinearised and rescaled."""
        self._require_level(ciphertext)
        product = seal.Ciphertext()
        self._evaluator.square(ciphertext, product)
        self._evaluator.relinearize_inplace(product, self.keys.relin)
        return self.rescale(product)

    def multiply(self, one: Any, other: Any) -> Any:
        """The product of two ciphertexts, relinearised and rescaled; the higher one goes down to the other's level."""
        one, other = self._meet(one, other)
        self._require_level(one)
        product = seal.Ciphertext()
        self._evaluator.multiply(one, other, product)
        self._evaluator.relinearize_inplace(product, self.keys.relin)
        return self.rescale(product)

    def add(self, one: Any, other: Any) -> Any:
        """The sum of two ciphertexts of one scale; the higher one goes down to the other's level."""
        one, other = self._meet(one, other)
        total = seal.Ciphertext()
        self._evaluator.add(one, other, total)
        return total

    def subtract(self, one: Any, other: Any) -> Any:
        """The difference of two ciphertexts of one scale; the higher one goes down to the other's level."""
        one, other = self._meet(one, other)
        total = seal.Ciphertext()
        self._evaluator.sub(one, other, total)
        return total

    def add_plain(self, ciphertext: Any, values: Sequence[float] | Floats | float) -> Any:
        """Add numbers to the slots. Changes and returns `ciphertext`."""
        level = self.scheme.level(ciphertext)
        self._evaluator.add_plain_inplace(ciphertext, self.scheme.encode(values, level=level, scale=ciphertext.scale))
        return ciphertext

    def rotate(self, ciphertext: Any, step: int) -> Any:
        """Slot s of the result is slot s + step of `ciphertext`."""
        rotated = seal.Ciphertext()
        self._evaluator.rotate_vector(ciphertext, step, self.keys.galois, rotated)
        return rotated

    def sum_rotations(self, ciphertext: Any, steps: Sequence[int]) -> Any:
        """Add the rotation by each step in turn: steps k, 2k, 4k, … sum 2, 4, 8, … slots that are k apart."""
        for step in steps:
            ciphertext = self.add(ciphertext, self.rotate(ciphertext, step))
        return ciphertext

    def lower(self, ciphertext: Any, level: int) -> Any:
        """The same numbers at a lower level."""
        lowered = seal.Ciphertext()
        self._evaluator.mod_switch_to(ciphertext, self.scheme.identity(level), lowered)
        return lowered

    def _require_level(self, ciphertext: Any) -> None:
        if self.scheme.level(ciphertext) >= self.scheme.parameters.depth:
            raise EncryptError(
                f"Too many products follow on each other: these parameters have {self.scheme.parameters.depth} levels, "
                "and all are used up. Plan anew with more levels."
            )

    def _meet(self, one: Any, other: Any) -> tuple[Any, Any]:
        first, second = self.scheme.level(one), self.scheme.level(other)
        if first < second:
            return self.lower(one, second), other
        if second < first:
            return one, self.lower(other, first)
        return one, other
