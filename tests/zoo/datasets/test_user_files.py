"""The user's own files: what was written is what is read, and everything doubtful is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets.table_files import read_csv

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 5, 4), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def test_npz_of_bytes_is_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=IMAGES, y=LABELS, classes=np.array(["cat", "dog", "owl"]))
    data = datasets.open(tmp_path / "mine.npz")
    np.testing.assert_allclose(data.x.numpy() * 255, IMAGES, atol=1e-4)
    assert (data.name, data.classes, data.bounds) == ("mine", ("cat", "dog", "owl"), (0.0, 1.0))
    assert data.y.tolist() == LABELS.tolist()
    assert data.source == str(tmp_path / "mine.npz")


def test_npz_of_floats_stays_as_it_is(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(6, 2))
    np.savez(tmp_path / "a.npz", x=x, y=LABELS, features=np.array(["u", "v"]), bounds=np.array([-10, 10]))
    data = datasets.open(str(tmp_path / "a.npz"))
    np.testing.assert_array_equal(data.x.numpy(), x.astype(np.float32))
    assert (data.classes, data.features, data.bounds) == (("0", "1", "2"), ("u", "v"), (-10.0, 10.0))


def test_npz_with_names_for_labels_and_grey_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=IMAGES[:, 0], y=np.array(["owl", "cat", "owl", "cat", "cat", "cat"]))
    data = datasets.open(tmp_path / "a.npz")
    assert data.input_shape == (1, 5, 4)
    assert (data.classes, data.y.tolist()) == (("cat", "owl"), [1, 0, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": IMAGES}, "must hold the arrays 'x' and 'y'. It holds: x"),
        ({"x": IMAGES.transpose(0, 2, 3, 1), "y": LABELS}, "channels last"),
        ({"x": IMAGES, "y": LABELS[:3]}, "labels of .* must be int64 of shape"),
        ({"x": IMAGES, "y": LABELS.astype(float)}, "whole numbers or of class names"),
        ({"x": IMAGES, "y": LABELS - 1}, r"must lie in 0\.\."),
        ({"x": np.full((6, 2), np.nan), "y": LABELS}, "finite"),
        ({"x": IMAGES, "y": LABELS, "bounds": np.zeros(3)}, r"'bounds' in a.npz must be \(low, high\)"),
    ],
)
def test_npz_that_is_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        datasets.open(tmp_path / "a.npz")


def test_a_pickle_in_npz_is_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([object()]), y=LABELS, allow_pickle=True)
    with pytest.raises(DataError, match="pickles"):
        datasets.open(tmp_path / "a.npz")


def test_a_damaged_npz(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"cannot be read as \.npz"):
        datasets.open(tmp_path / "a.npz")


def test_columns_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("b,a\n1,x\n2,\n")
    chunks = [{name: list(values) for name, values in chunk.items()} for chunk in read_csv(tmp_path / "t.csv", rows=1)]
    assert chunks == [{"b": ["1"], "a": ["x"]}, {"b": ["2"], "a": [None]}]


def test_csv_and_parquet_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,size,colour,kind\np1,1.5,red,a\np2,,"green, dark",b\np3,3,red,a\n')
    table = pyarrow.table(
        {
            "id": ["p1", "p2", "p3"],
            "size": pyarrow.array([1.5, None, 3.0]),
            "colour": ["red", "green, dark", "red"],
            "kind": ["a", "b", "a"],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        data = datasets.open(tmp_path / name, label="kind", ignore=["id"], missing="indicate")
        assert data.features == ("size", "size is missing", "colour=green, dark", "colour=red")
        assert data.x.tolist() == [[1.5, 0, 0, 1], [0, 1, 1, 0], [3, 0, 0, 1]]
        assert (data.classes, data.y.tolist()) == (("a", "b"), [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "Line 3 of t.csv has 1 values, the header has 2"),
        ("a,a\n1,2\n", "must name every column, each differently"),
        ("", "no column 'label'"),
        ("a,label\n", "no rows left"),
        ('a,label\n"1,2\n', "cannot be read as CSV"),
    ],
)
def test_csv_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        datasets.open(tmp_path / "t.csv")


def test_csv_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        datasets.open(tmp_path / "t.csv")


def test_an_unknown_column_to_ignore(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1,2\n")
    with pytest.raises(DataError, match="no column 'b' to ignore"):
        datasets.open(tmp_path / "t.csv", ignore=["b"])


def test_a_damaged_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        datasets.open(tmp_path / "t.parquet")


def _folder(path: Path, mode: str = "RGB", sizes: tuple[tuple[int, int], ...] = ((4, 5),) * 4) -> Path:
    for index, (kind, size) in enumerate(zip(["owl", "cat", "cat", "owl"], sizes, strict=True)):
        (path / kind).mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, 10 * index if mode == "L" else (10 * index, 0, 0)).save(path / kind / f"{index}.png")
    return path


def test_image_folder(tmp_path: Path) -> None:
    data = datasets.open(_folder(tmp_path / "pets"))
    assert (data.name, data.classes, data.y.tolist()) == ("pets", ("cat", "owl"), [0, 0, 1, 1])
    assert data.input_shape == (3, 5, 4)
    assert (data.x[:, 0, 0, 0] * 255).round().tolist() == [10, 20, 0, 30]


def test_grey_folder_has_one_channel_unless_one_picture_is_coloured(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "pets", mode="L")
    assert datasets.open(folder).input_shape == (1, 5, 4)
    Image.new("RGB", (4, 5), (9, 0, 0)).save(folder / "cat" / "9.png")
    assert datasets.open(folder).input_shape == (3, 5, 4)


def test_pictures_of_two_sizes_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "pets", sizes=((4, 5), (4, 5), (6, 5), (4, 5)))
    with pytest.raises(DataError, match=r"one size.*1\.png has 4×5 pixels, .*2\.png has 6×5"):
        datasets.open(folder)


def test_pictures_are_brought_to_a_shape_from_their_middle(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "pets", mode="L", sizes=((8, 4), (4, 4), (4, 12), (2, 2)))
    assert datasets.open(folder, shape=(3, 4, 4)).input_shape == (3, 4, 4)
    striped = np.zeros((4, 12), dtype=np.uint8)
    striped[:, 4:8] = 255
    Image.fromarray(striped).save(tmp_path / "one.png")
    data = datasets.open(tmp_path / "one.png", shape=(1, 4, 4))
    assert torch.equal(data.x, torch.ones(1, 1, 4, 4))
    assert (data.classes, data.y.tolist(), data.name) == (("unlabelled",), [0], "one")
    with pytest.raises(DataError, match="cannot be given the shape"):
        datasets.open(folder, shape=(30,))


def test_pictures_without_sub_folders_have_no_labels(tmp_path: Path) -> None:
    for name in ("b", "a"):
        Image.new("RGB", (4, 5), (ord(name), 0, 0)).save(tmp_path / f"{name}.png")
    data = datasets.open(tmp_path)
    assert data.classes == ("unlabelled",)
    assert (data.x[:, 0, 0, 0] * 255).round().tolist() == [ord("a"), ord("b")]


def test_folders_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no sub-folders"):
        datasets.open(tmp_path)
    folder = _folder(tmp_path / "pets")
    (folder / "dog").mkdir()
    with pytest.raises(DataError, match="There are none in: dog"):
        datasets.open(folder)
    (folder / "dog" / "a.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"dog/a\.png cannot be read"):
        datasets.open(folder)


def test_deep_pictures_are_refused_and_not_cut_off(tmp_path: Path) -> None:
    (tmp_path / "scan").mkdir()
    Image.fromarray(np.full((5, 4), 40_000, dtype=np.uint16)).save(tmp_path / "scan" / "a.png")
    with pytest.raises(DataError, match="more than 8 bits per channel"):
        datasets.open(tmp_path)


def test_torch_dataset() -> None:
    x, y = torch.rand(6, 3, 5, 4), torch.from_numpy(LABELS)
    data = datasets.from_torch(TensorDataset(x, y), name="mine")
    assert torch.equal(data.x, x)
    assert torch.equal(data.y, y)
    assert data.classes == ("0", "1", "2")


class _Named(Dataset[Any]):
    """As torchvision's: no end of iteration, bytes, and names of the classes."""

    classes = ("cat", "dog", "owl")

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(IMAGES[index % len(IMAGES)]), int(LABELS[index % len(IMAGES)])


def test_torch_dataset_with_bytes_and_names() -> None:
    data = datasets.from_torch(_Named())
    assert (len(data), data.classes, data.bounds) == (6, ("cat", "dog", "owl"), (0.0, 1.0))


class _Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        return iter([(torch.zeros(2), 0), (torch.ones(2), 1)])


def test_torch_stream() -> None:
    assert datasets.from_torch(_Stream()).x.tolist() == [[0, 0], [1, 1]]


def test_torch_datasets_that_are_refused() -> None:
    class Pictures(_Named):
        def __getitem__(self, index: int) -> Any:
            return Image.new("L", (2, 2)), 0

    class Shapes(_Named):
        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return torch.zeros(index + 1), 0

    with pytest.raises(DataError, match=r"must be tensors\. Got Image.*ToTensor"):
        datasets.from_torch(Pictures())
    with pytest.raises(DataError, match=r"must have one shape\. Got \[\(1,\), \(2,\)"):
        datasets.from_torch(Shapes())
    with pytest.raises(DataError, match="no examples"):
        datasets.from_torch(TensorDataset(torch.zeros(0, 2), torch.zeros(0)))


def test_open_takes_built_in_names_too() -> None:
    assert datasets.open("digits", part="test").name == "digits"


def test_open_says_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is nothing at"):
        datasets.open(tmp_path / "missing.csv")
    with pytest.raises(DataError, match="There is nothing at"):
        datasets.open("missing.npz")
    with pytest.raises(DataError, match="no dataset 'digitz'"):
        datasets.open("digitz")
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"read from \.npz, \.npy, \.safetensors, \.csv, \.parquet"):
        datasets.open(tmp_path / "a.xlsx")


@pytest.mark.parametrize("classes", [["cat", "dog"], ["dog", "cat"], ["cow", "dog", "cat"]])
def test_labels_given_as_names_keep_their_names_whatever_the_order_of_the_classes(
    classes: list[str], tmp_path: Path
) -> None:
    names = np.array(["cat", "dog", "dog"])
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2), np.float32), y=names, classes=np.array(classes))
    data = datasets.open(tmp_path / "a.npz")
    assert data.classes == tuple(classes)
    assert [data.classes[label] for label in data.y] == names.tolist()


def test_a_label_that_is_no_class_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 2), np.float32), y=np.array(["cow"]), classes=np.array(["cat", "dog"]))
    with pytest.raises(DataError, match="'y' holds 'cow', which is not among the classes cat, dog"):
        datasets.open(tmp_path / "a.npz")
