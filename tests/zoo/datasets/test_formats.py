"""Sets that cannot be fetched here: each reader on a small file of the canonical format, made by the test."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from modelkeep.core.data import Data
from modelkeep.core.errors import DataError
from modelkeep.zoo import datasets
from modelkeep.zoo.datasets import acas_xu, cifar, mnist
from modelkeep.zoo.datasets.dataset import Part

RANDOM = np.random.default_rng(0)


def _parse(name: str, files: Mapping[str, Path], part: Part) -> Data:
    found = datasets.info(name).parse(files, part)
    assert isinstance(found, Data)
    return found


def _picture(colour: tuple[int, int, int], size: tuple[int, int], kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def _tar(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return path


def _zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return path


def test_idx(tmp_path: Path) -> None:
    images = RANDOM.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 5], dtype=np.uint8)
    image_file, label_file = tmp_path / "t10k-images-idx3-ubyte", tmp_path / "t10k-labels-idx1-ubyte"
    image_file.write_bytes(struct.pack(">IIII", 0x00000803, 5, 28, 28) + images.tobytes())
    label_file.write_bytes(struct.pack(">II", 0x00000801, 5) + labels.tobytes())
    data = _parse("mnist", {path.name: path for path in (image_file, label_file)}, "test")
    np.testing.assert_array_equal((data.x * 255).round().numpy().astype(np.uint8)[:, 0], images)
    assert data.y.tolist() == labels.tolist()
    image_file.write_bytes(image_file.read_bytes()[:-1])
    with pytest.raises(DataError, match="says it holds"):
        mnist.read_idx(image_file)
    image_file.write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(DataError, match="not an IDX file"):
        mnist.read_idx(image_file)


def test_cifar_100(tmp_path: Path) -> None:
    images = RANDOM.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    coarse, fine = [0, 1, 0, 1], [7, 99, 0, 42]
    raw = b"".join(bytes([c, f]) + image.tobytes() for c, f, image in zip(coarse, fine, images, strict=True))
    names = "\n".join(f"thing{i}" for i in range(100)).encode()
    archive = _tar(
        tmp_path / "cifar-100-binary.tar.gz",
        {"cifar-100-binary/test.bin": raw, "cifar-100-binary/fine_label_names.txt": names},
    )
    data = _parse("cifar-100", {archive.name: archive}, "test")
    assert data.y.tolist() == fine
    assert data.classes[42] == "thing42"
    np.testing.assert_array_equal((data.x * 255).round().numpy().astype(np.uint8), images)
    with pytest.raises(DataError, match="records of 3074 bytes"):
        cifar.read_records(raw[:-1], label_bytes=2)
    with pytest.raises(DataError, match="does not hold"):
        _parse("cifar-100", {archive.name: archive}, "train")


def test_svhn(tmp_path: Path) -> None:
    images = RANDOM.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    path = tmp_path / "train_32x32.mat"
    savemat(path, {"X": images, "y": np.array([[1], [10], [9], [2]], dtype=np.uint8)})
    data = _parse("svhn", {path.name: path}, "train")
    assert data.y.tolist() == [1, 0, 9, 2]  # 10 is the digit zero
    assert int((data.x[2, 1, 5, 7] * 255).round()) == images[5, 7, 1, 2]
    path.write_bytes(b"not MATLAB" * 100)
    with pytest.raises(DataError, match="not a MATLAB file"):
        _parse("svhn", {path.name: path}, "train")


def test_tiny_imagenet(tmp_path: Path) -> None:
    red, blue = _picture((250, 0, 0), (64, 64)), _picture((0, 0, 250), (64, 64))
    root = "tiny-imagenet-200"
    archive = _zip(
        tmp_path / f"{root}.zip",
        {
            f"{root}/wnids.txt": b"n02\nn01\n",
            f"{root}/words.txt": b"n01\tgoldfish, Carassius auratus\nn02\ttailed frog, bell toad\nn03\tunused\n",
            f"{root}/train/n01/n01_boxes.txt": b"",
            f"{root}/train/n01/images/n01_0.JPEG": red,
            f"{root}/train/n02/images/n02_0.JPEG": blue,
            f"{root}/val/val_annotations.txt": b"val_0.JPEG\tn02\t0\t0\t62\t62\nval_1.JPEG\tn01\t0\t0\t62\t62\n",
            f"{root}/val/images/val_0.JPEG": blue,
            f"{root}/val/images/val_1.JPEG": red,
        },
    )
    for part in ("train", "test"):
        data = _parse("tiny-imagenet", {archive.name: archive}, part)
        assert data.classes == ("tailed frog (n02)", "goldfish (n01)")
        for picture, label in zip(data.x, data.y, strict=True):
            assert int(picture.mean(dim=(1, 2)).argmax()) == (2 if label == 0 else 0)  # frogs are blue here


def test_eurosat(tmp_path: Path) -> None:
    archive = _zip(
        tmp_path / "EuroSAT.zip",
        {
            "2750/River/River_1.jpg": _picture((0, 0, 200), (64, 64)),
            "2750/Forest/Forest_1.jpg": _picture((0, 200, 0), (64, 64)),
        },
    )
    data = _parse("eurosat", {archive.name: archive}, "train")
    assert data.classes == ("Forest", "River")
    assert data.input_shape == (3, 64, 64)
    assert data.x.mean(dim=(2, 3)).argmax(dim=1).tolist() == [1, 2]


def test_lfw(tmp_path: Path) -> None:
    grey = _picture((128, 128, 128), (250, 250))
    people = {"Ann_Lee": 100, "Bob_Ray": 99, "Cy_Young": 50, "Di_Once": 1}
    archive = _tar(
        tmp_path / "lfw-funneled.tgz",
        {f"lfw_funneled/{p}/{p}_{i:04d}.jpg": grey for p, n in people.items() for i in range(1, n + 1)}
        | {"lfw_funneled/pairs.txt": b"10 300"},
    )
    five = _parse("lfw", {archive.name: archive}, "train")
    assert (five.classes, len(five), five.input_shape) == (("Ann Lee",), 100, (1, 50, 37))
    twelve = _parse("lfw-12", {archive.name: archive}, "train")
    assert (twelve.classes, len(twelve), twelve.input_shape) == (("Ann Lee", "Bob Ray", "Cy Young"), 249, (3, 64, 64))
    assert twelve.x.mean() == pytest.approx(128 / 255, abs=0.01)


def test_celeba(tmp_path: Path) -> None:
    names = [f"{i:06d}.jpg" for i in range(1, 5)]
    pictures = {f"img_align_celeba/{name}": _picture((40 * i, 0, 0), (178, 218)) for i, name in enumerate(names)}
    archive = _zip(tmp_path / "img_align_celeba.zip", pictures)
    attributes = tmp_path / "list_attr_celeba.txt"
    attributes.write_text(
        "4\n5_o_Clock_Shadow Attractive Bald \n"
        + "".join(f"{name} -1 {value:>2} -1\n" for name, value in zip(names, (1, -1, 1, -1), strict=True))
    )
    partition = tmp_path / "list_eval_partition.txt"
    partition.write_text("".join(f"{name} {part}\n" for name, part in zip(names, (0, 1, 2, 2), strict=True)))
    files = {path.name: path for path in (archive, attributes, partition)}
    test = _parse("celeba", files, "test")
    assert test.y.tolist() == [1, 0]
    assert test.input_shape == (3, 64, 64)
    assert test.x[:, 0].mean(dim=(1, 2)).mul(255).round().tolist() == pytest.approx([80, 120], abs=3)
    assert _parse("celeba", files, "train").y.tolist() == [1]


def test_acas_xu(tmp_path: Path) -> None:
    """A network of one hidden layer whose cost for advice k is high where input k is: known answers."""
    lines = [
        "// a comment",
        "2,5,5,5,",
        "5,5,5,",
        "0,",
        "-1,-1,-1,-1,-1,",
        "1,1,1,1,1,",
        "0,0,0,0,0,0,",
        "2,2,2,2,2,1,",
    ]
    identity = torch.eye(5).tolist()
    lines += [",".join(map(str, row)) + "," for row in identity] + ["10,"] * 5  # shifted, so that ReLU changes nothing
    lines += [",".join(map(str, row)) + "," for row in identity] + ["0,"] * 5
    path = tmp_path / acas_xu.NETWORK
    path.write_text("\n".join(lines))
    train, test = (_parse("acas-xu", {path.name: path}, part) for part in ("train", "test"))
    datasets.info("acas-xu").check(train, "train")
    assert torch.equal(train.y, train.x.argmin(dim=1))
    assert -0.5 <= float(train.x.min()) < -0.49
    assert 0.49 < float(train.x.max()) <= 0.5
    assert not torch.equal(train.x[: len(test)], test.x)
    path.write_text("\n".join(lines[:-3]))
    with pytest.raises(DataError, match="ends too early"):
        _parse("acas-xu", {path.name: path}, "train")
    path.write_text("1,4,2,4,\n4,2,\n0,\n")
    with pytest.raises(DataError, match=r"5 inputs and 5 outputs\. Got 4 and 2"):
        _parse("acas-xu", {path.name: path}, "train")


def test_adult_rows_that_are_not_whole(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text("39, State-gov, 77516\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n")
    with pytest.raises(DataError, match="should have 15 values"):
        _parse("adult", {name: tmp_path / name for name in ("adult.data", "adult.test")}, "train")
