"""Which pass is checked: each as likely as the others, chosen by no party alone; and how soon a cheat is found."""

from __future__ import annotations

import random
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from scipy.stats import binomtest, chisquare

from govern.asking import a_pass
from modelkeep.core.errors import GovernError, WireError
from modelkeep.core.signing import Signer
from modelkeep.govern.ledger import Ledger
from modelkeep.govern.passes import Consent
from modelkeep.govern.session.draw import draw, hide, join_secrets


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """Twenty passes, two of which are checks."""
    folder = tmp_path_factory.mktemp("draw")
    made = Ledger(Path(":memory:"), "bob", Signer.at(folder / "key.pem"))
    for number in range(20):
        made.prepare(a_pass(number, "check" if number in (5, 15) else "train"), (), (), ())
        made.commit(number)
    return made


def seeds(count: int) -> list[str]:
    return [sha256(str(i).encode()).hexdigest() for i in range(count)]


def test_every_pass_is_as_likely_as_the_others(ledger: Ledger) -> None:
    counts = Counter(draw(seed, ledger, 20, 12) for seed in seeds(4000))
    assert sorted(counts) == [n for n in range(8, 20) if n != 15]
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_there_must_be_something_to_check(ledger: Ledger) -> None:
    with pytest.raises(GovernError, match="no pass among the last 1"):
        draw("0" * 64, ledger, 16, 1)


@pytest.mark.parametrize("checks", [1, 3, 10])
def test_a_cheat_on_a_share_of_passes_is_found_as_often_as_the_formula_says(ledger: Ledger, checks: int) -> None:
    """1 - (1 - p)^k for k checks, each of the drawn pass alone; one that also looks at those before it finds more."""
    cheated = {2, 9, 18}
    share = 3 / 18
    tries, rng = 400, random.Random(0)
    drawn = [[draw(f"{rng.getrandbits(256):x}", ledger, 20, 20) for _ in range(checks)] for _ in range(tries)]
    found = sum(not cheated.isdisjoint(numbers) for numbers in drawn)
    assert binomtest(found, tries, 1 - (1 - share) ** checks).pvalue > 1e-4


def test_all_secrets_count_and_none_can_be_another_one(tmp_path: Path) -> None:
    signer, of = Signer.at(tmp_path / "key.pem"), a_pass(0, "check")
    secrets = {"alice": "1" * 64, "bob": "2" * 64}
    consents = [
        Consent.give(of, name, "", signer, session="s", nonce=hide(secret), expires=1)
        for name, secret in secrets.items()
    ]
    joined = join_secrets(consents, secrets)
    for name in secrets:
        with pytest.raises(WireError, match=f"'{name}' shows another secret"):
            join_secrets(consents, {**secrets, name: "3" * 64})
        with pytest.raises(WireError, match=f"'{name}' shows another secret"):
            join_secrets(consents, {each: told for each, told in secrets.items() if each != name})
    other = [*consents[:1], Consent.give(of, "bob", "", signer, session="s", nonce=hide("4" * 64), expires=1)]
    assert join_secrets(other, {**secrets, "bob": "4" * 64}) != joined
