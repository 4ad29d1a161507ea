"""The built-in sets: their descriptions agree with their documentation, the bundled ones with scikit-learn."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import sklearn.datasets
import torch

from modelkeep.core.errors import DataError, InputError
from modelkeep.zoo import datasets

# Rows in train and test together, classes: known from the sets' own documentation.
KNOWN = {
    "digits": (1797, 10),
    "breast-cancer": (569, 2),
    "wine": (178, 3),
    "mnist": (70_000, 10),
    "fashion-mnist": (70_000, 10),
    "cifar-10": (60_000, 10),
    "cifar-100": (60_000, 100),
    "svhn": (99_289, 10),
    "quickdraw": (34_500, 345),
    "imagenet-sample": (20, 1000),
    "tiny-imagenet": (110_000, 200),
    "eurosat": (27_000, 10),
    "lfw": (1140, 5),
    "lfw-12": (1560, 12),
    "celeba": (182_732, 2),  # 202,599 without the 19,867 of the validation part
    "adult": (48_842, 2),
    "german-credit": (1000, 2),
    "compas": (7214, 2),
    "wisconsin": (699, 2),
    "dna": (3186, 3),
    "glass": (214, 6),
    "house-votes": (435, 2),
    "ionosphere": (351, 2),
    "letter": (20_000, 26),
    "pima-diabetes": (768, 2),
    "satellite": (6435, 6),
    "shuttle": (58_000, 7),
    "sonar": (208, 2),
    "soybean": (683, 19),
    "vehicle": (846, 4),
    "vowel": (990, 11),
    "zoo": (101, 7),
    "spam": (4601, 2),
    "musk": (476, 2),
    "golub": (38, 2),
    "bladder": (57, 3),
    "leukaemia": (128, 2),
    "acas-xu": (120_000, 5),
    "imdb": (24_902, 2),  # 25,000 without the 98 that repeat another
    "rotten-tomatoes": (8530, 2),
    "spam-assassin": (5731, 2),  # 6,046 without those whose body repeats another's
    "reuters": (8580, 65),  # 8,654 with a body and one topic, without repetitions
}


def test_every_set_is_described_as_its_documentation_says() -> None:
    found = {name: datasets.info(name) for name in datasets.names()}
    assert {name: (sum(one.rows.values()), one.classes) for name, one in found.items()} == KNOWN
    assert datasets.names() == tuple(sorted(KNOWN))


@pytest.mark.parametrize("name", KNOWN)
def test_descriptions_are_complete(name: str) -> None:
    one = datasets.info(name)
    assert one.name == name
    assert one.title
    assert one.licence
    assert one.home.startswith("http")
    assert one.split
    assert one.shares is None or sum(one.shares) == pytest.approx(1)
    assert len({file.name for file in one.files}) == len(one.files)
    for file in one.files:
        assert file.checksum is None or re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", file.checksum)
        assert all(re.match(r"https?://|npm:|pip:|apt:", source.where) for source in file.sources)


def test_only_one_file_has_no_published_checksum() -> None:
    assert [file.name for name in KNOWN for file in datasets.info(name).files if file.checksum is None] == [
        "ACASXU_run2a_1_1_batch_2000.nnet"
    ]


@pytest.mark.parametrize("name", ["digits", "breast-cancer", "wine"])
def test_the_bundled_sets_hold_what_scikit_learn_holds(name: str) -> None:
    truth = getattr(sklearn.datasets, f"load_{name.replace('-', '_')}")()
    train, test = datasets.load(name), datasets.load(name, "test")
    assert not datasets.info(name).download
    assert datasets.is_cached(name)
    scale = 16 if name == "digits" else 1
    ours = np.concatenate([train.x.flatten(1).numpy(), test.x.flatten(1).numpy()]) * scale
    labels = np.concatenate([train.y.numpy(), test.y.numpy()])
    order = np.lexsort(np.column_stack([ours, labels]).T)
    theirs = truth.data.astype(np.float32)
    their_order = np.lexsort(np.column_stack([theirs, truth.target]).T)
    np.testing.assert_array_equal(ours[order], theirs[their_order])
    np.testing.assert_array_equal(labels[order], truth.target[their_order])
    assert train.name == name
    assert train.source.endswith("(train)")


def test_the_split_of_digits_never_changes() -> None:
    """Studies name data by its fingerprint, so a change of the split would silently separate old from new results."""
    fingerprint = datasets.load("digits", "test").fingerprint()
    assert fingerprint == "a2f0eb78632978fb6781d7d65d2f1c418a18576481b12dc4b4fe5440488fe42e"


def test_names_are_forgiving_about_case_and_dashes() -> None:
    assert datasets.info("German_Credit").name == "german-credit"


def test_an_unknown_name_gets_a_suggestion_and_the_list() -> None:
    with pytest.raises(DataError, match=r"no dataset 'cifar10'\. Did you mean 'cifar-10' or .*There are: acas-xu, "):
        datasets.load("cifar10")


def test_an_unknown_part() -> None:
    with pytest.raises(InputError, match="'part' parameter of load must be 'train' or 'test'"):
        datasets.load("digits", "valid")  # type: ignore[arg-type]


def test_data_other_than_described_is_refused() -> None:
    data = datasets.load("digits")
    with pytest.raises(DataError, match=r"should have \(rows, shape, classes\) = \(1438, .* Got \(7, "):
        datasets.info("digits").check(data.take(torch.arange(7)), "train")


def test_to_find_one_set_imports_no_other() -> None:
    code = (
        "import sys; from modelkeep import datasets; datasets.names(); datasets.load('digits');"
        "print(sorted(name.rpartition('.')[2] for name in sys.modules if name.startswith('modelkeep.zoo.datasets.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'scikit_learn'" in run.stdout
    assert "'mnist'" not in run.stdout
    assert "'adult'" not in run.stdout
