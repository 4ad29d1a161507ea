"""A party's folder, and the weights that are dealt out to the folders and put together again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from modelkeep import Data, Model
from modelkeep.core.errors import GovernError, SliceError
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.draft import draft
from modelkeep.govern.agreement.terms import Material
from modelkeep.govern.folder import Folder
from modelkeep.govern.identity import Identity
from modelkeep.govern.piece.files import assemble, join, read_piece, split, write_piece
from modelkeep.training.recipe import Recipe

NAMES = ("alice", "bob", "carol")
DATA = Data(torch.zeros(4, 3, 32, 32), torch.arange(4) % 3, ("a", "b", "c"), bounds=(0.0, 1.0))


def network() -> Model:
    """Batch norm gives it buffers, one of them an integer; and it has a normalisation of its own."""
    model = Model.load(
        "modelkeep.architectures:small_resnet",
        like=DATA,
        arguments={"input_shape": [3, 32, 32], "classes": 3},
        preprocessing={"mean": [0.5], "std": [0.25]},
    )
    for number, buffer in enumerate(model.module.buffers()):
        buffer.copy_(torch.full_like(buffer, 1 + number))  # not what the factory makes
    return model


@pytest.fixture(scope="module")
def model() -> Model:
    return network()


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Folder]:
    """Where the parties' identities are."""
    made = {name: Folder(tmp_path_factory.mktemp(name)) for name in NAMES}
    for name, folder in made.items():
        Identity.at(folder.path, name)
    return made


@pytest.fixture(scope="module")
def agreement(homes: dict[str, Folder], model: Model) -> Agreement:
    """Alice holds both ends, Bob the middle and Carol only the labels."""
    return draft(
        "three",
        model,
        parties=[folder.identity().public for folder in homes.values()],
        addresses={name: f"127.0.0.1:{7401 + i}" for i, name in enumerate(NAMES)},
        cuts=["section1", "section2.block2.residual"],
        holders=["alice", "bob", "alice"],
        data=Material.inputs("alice", DATA),
        labels=Material.labels("carol", DATA),
        recipe=Recipe(epochs=1),
    )


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Folder]:
    """Where the pieces go."""
    for name in NAMES:
        (tmp_path / name).mkdir()
    return {name: Folder(tmp_path / name) for name in NAMES}


def test_what_is_dealt_out_is_all_of_the_model_and_nothing_twice(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    split(model, agreement, folders)
    alice, bob = (load_file(folders[name].piece) for name in ("alice", "bob"))
    state = model.module.state_dict()
    assert alice.keys() | bob.keys() == state.keys()
    assert not alice.keys() & bob.keys()
    assert alice
    assert bob
    assert not folders["carol"].piece.exists()
    assert read_piece(folders["carol"].piece, agreement, "carol") == {}
    for name, tensor in {**alice, **bob}.items():
        assert tensor.dtype == state[name].dtype
        assert torch.equal(tensor, state[name])


def test_all_pieces_together_are_the_model_again(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    split(model, agreement, {name: folders[name] for name in ("alice", "bob")})
    whole = join(agreement, {name: folders[name].piece for name in ("alice", "bob")})
    assert whole.fingerprint() == model.fingerprint()
    assert torch.equal(whole.logits(whole.probe()), model.logits(model.probe()))


def test_pieces_that_were_not_released_are_not_assembled(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    split(model, agreement, folders)
    with pytest.raises(GovernError, match="'alice' was not released: nothing shows that all parties consented"):
        assemble(agreement, {name: folders[name].piece for name in ("alice", "bob")})


def test_one_piece_is_no_model(folders: dict[str, Folder], agreement: Agreement, model: Model) -> None:
    split(model, agreement, folders)
    with pytest.raises(GovernError, match="The model is not whole without the pieces of: bob"):
        join(agreement, {"alice": folders["alice"].piece})


def test_an_agreement_that_was_read_back_deals_the_same_model(
    folders: dict[str, Folder], agreement: Agreement, model: Model, tmp_path: Path
) -> None:
    split(model, Agreement.read(agreement.write(tmp_path / "agreement.json")), folders)
    assert folders["bob"].piece.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_nobody_else_may_read_a_piece(folders: dict[str, Folder], agreement: Agreement, model: Model) -> None:
    split(model, agreement, folders)
    assert folders["bob"].piece.stat().st_mode & 0o777 == 0o600


def test_a_piece_that_is_there_is_not_overwritten(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    folders["bob"].piece.write_text("trained for a month")
    with pytest.raises(GovernError, match=r"piece.safetensors' is there already"):
        split(model, agreement, folders)
    assert folders["bob"].piece.read_text() == "trained for a month"
    assert not folders["alice"].piece.exists()


def test_only_the_model_that_was_agreed_on_is_dealt_out(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    with pytest.raises(GovernError, match="There is no folder for: bob"):
        split(model, agreement, {"alice": folders["alice"]})
    other = Model.from_card(model.module, replace(model.card, classes=("a", "b", "x")))
    with pytest.raises(GovernError, match="'three' is about another model"):
        split(other, agreement, folders)
    double = network()
    double = Model.from_card(double.module.double(), double.card)
    with pytest.raises(GovernError, match=r"weights are torch.float64, but its factory makes torch.float32"):
        split(double, agreement, folders)
    assert not any(folder.piece.exists() for folder in folders.values())


Tensors = dict[str, torch.Tensor]
DAMAGED: dict[str, tuple[Callable[[Tensors, str], Tensors], str]] = {
    "a weight is missing": (lambda t, n: {k: v for k, v in t.items() if k != n}, "{n} missing, none too many"),
    "a weight too many": (lambda t, n: {**t, "more": t[n].clone()}, "none missing, more too many"),
    "another shape": (lambda t, n: {**t, n: t[n][:1]}, "'{n}' in the piece of 'bob' should be torch.float32 of shape"),
    "another type": (lambda t, n: {**t, n: t[n].double()}, "Got torch.float64"),
    "NaN": (lambda t, n: {**t, n: t[n] * torch.nan}, "has NaN in {n}"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_piece_that_does_not_fit_is_refused(
    folders: dict[str, Folder], agreement: Agreement, model: Model, damage: str
) -> None:
    split(model, agreement, folders)
    tensors = load_file(folders["bob"].piece)
    name = next(n for n, t in tensors.items() if t.is_floating_point() and len(t) > 1)
    change, sentence = DAMAGED[damage]
    write_piece(folders["bob"].piece, agreement, "bob", change(tensors, name))
    with pytest.raises(GovernError) as refused:
        join(agreement, {"alice": folders["alice"].piece, "bob": folders["bob"].piece})
    assert sentence.format(n=name) in str(refused.value)


def test_anothers_piece_is_refused(folders: dict[str, Folder], agreement: Agreement, model: Model) -> None:
    split(model, agreement, folders)
    with pytest.raises(GovernError, match="is the piece of 'alice' under the agreement 'three', not of 'bob'"):
        read_piece(folders["alice"].piece, agreement, "bob")
    with pytest.raises(GovernError, match="under the agreement 'three', not of 'bob' under 'four'"):
        read_piece(folders["bob"].piece, replace(agreement, name="four"), "bob")
    save_file(load_file(folders["bob"].piece), folders["bob"].piece)
    with pytest.raises(GovernError, match="is the piece of None"):
        read_piece(folders["bob"].piece, agreement, "bob")


def test_a_truncated_or_missing_piece_is_refused(
    folders: dict[str, Folder], agreement: Agreement, model: Model
) -> None:
    split(model, agreement, folders)
    path = folders["bob"].piece
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(GovernError, match=r"of 'bob' cannot be read: .*Is it complete"):
        read_piece(path, agreement, "bob")
    path.unlink()
    with pytest.raises(GovernError, match="of 'bob' cannot be read"):
        read_piece(path, agreement, "bob")


def test_an_agreement_about_a_place_that_does_not_exist_is_not_drafted(agreement: Agreement, model: Model) -> None:
    with pytest.raises(SliceError, match="nowhere"):
        draft(
            "three",
            model,
            parties=agreement.parties,
            addresses={party.name: party.address for party in agreement.parties},
            cuts=["nowhere"],
            holders=["alice", "bob"],
            data=agreement.data,
            labels=agreement.labels,
            recipe=agreement.recipe,
        )


def test_a_folder_knows_whose_it_is_and_what_all_have_signed(
    homes: dict[str, Folder], agreement: Agreement, tmp_path: Path
) -> None:
    bob = homes["bob"]
    agreement.write(bob.agreement)
    assert bob.identity().name == "bob"
    with pytest.raises(GovernError, match="is not signed by: alice, bob, carol"):
        bob.signed_agreement()
    for folder in homes.values():
        agreement = agreement.sign(folder.identity())
    agreement.write(bob.agreement)
    assert bob.signed_agreement() == agreement
    dave = Folder(tmp_path / "dave")
    Identity.at(dave.path, "dave")
    agreement.write(dave.agreement)
    with pytest.raises(GovernError, match="'dave' is not a party"):
        dave.signed_agreement()
    with pytest.raises(GovernError, match="holds no identity"):
        Folder(tmp_path / "nobody").identity()


def test_one_process_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.lock(), pytest.raises(GovernError, match="Another process works in"), Folder(tmp_path).lock():
        pass
    with folder.lock():
        pass


def test_another_thread_may_end_what_one_began(tmp_path: Path) -> None:
    held = Folder(tmp_path).lock()
    held.__enter__()
    ending = threading.Thread(target=held.__exit__, args=(None, None, None))
    ending.start()
    ending.join()
    with Folder(tmp_path).lock():
        pass


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX's")
def test_a_killed_process_holds_nothing_back(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from modelkeep.govern.folder import Folder\n"
        "with Folder(Path(sys.argv[1])).lock(): print('mine', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(GovernError, match="Another process works in"), Folder(tmp_path).lock():
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
    with Folder(tmp_path).lock():
        pass


def test_a_folder_that_does_not_exist_cannot_be_worked_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GovernError, match="cannot be locked"), Folder(tmp_path / "file").lock():
        pass
