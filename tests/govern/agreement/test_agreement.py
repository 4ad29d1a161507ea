"""The agreement: what it demands of its parties, and that no change to a signed one goes unnoticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from torch import nn

from modelkeep import Data, Model
from modelkeep.core.errors import GovernError, InputError
from modelkeep.core.fingerprint import fingerprint
from modelkeep.core.slices import Place
from modelkeep.govern.agreement.agreement import Agreement
from modelkeep.govern.agreement.draft import draft
from modelkeep.govern.agreement.terms import Material, Member
from modelkeep.govern.consent.policy import PURPOSES
from modelkeep.govern.identity import Identity
from modelkeep.govern.wire.settings import Wire
from modelkeep.training.recipe import SGD, EarlyStop, Recipe

DATA = Data(torch.rand(20, 6, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 3, ("a", "b", "c"))
ADDRESSES = {"alice": "127.0.0.1:7401", "bob": "[::1]:7402", "carol": "carol.example.org:7403"}
POLICY = {"purposes": ["train", "infer"], "rate": 2.5}


def network() -> Model:
    arguments = {"input_shape": [6], "classes": 3, "hidden": [5, 4]}
    return Model.load("modelkeep.architectures:dense", like=DATA, arguments=arguments)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    home = tmp_path_factory.mktemp("parties")
    return {name: Identity.at(home / name, name) for name in ADDRESSES}


@pytest.fixture(scope="module")
def drafted(people: dict[str, Identity]) -> Agreement:
    return draft(
        "dense-of-three",
        network(),
        parties=[identity.public for identity in people.values()],
        addresses=ADDRESSES,
        cuts=["linear1_relu", Place("linear2_relu", 0)],
        holders=["alice", "bob", "alice"],
        data=Material.inputs("alice", DATA),
        labels=Material.labels("carol", DATA),
        recipe=Recipe(steps=7, optimizer=SGD(momentum=0.9), learning_rate=0.1, batch_size=4),
        seed=3,
        policies={"bob": POLICY},
    )


@pytest.fixture(scope="module")
def signed(drafted: Agreement, people: dict[str, Identity]) -> Agreement:
    for identity in people.values():
        drafted = drafted.sign(identity)
    return drafted


def test_a_draft_says_what_was_given(drafted: Agreement) -> None:
    assert drafted.cuts == (Place("linear1_relu"), Place("linear2_relu", 0))
    assert drafted.data == Material("alice", fingerprint({"x": DATA.x}), 20)
    assert drafted.labels == Material("carol", fingerprint({"y": DATA.y}), 20)
    assert drafted.wire == Wire(dtype="float32", compression="none", deadline=60.0, largest=256 * 2**20)
    assert drafted.member("bob").address == "[::1]:7402"
    assert drafted.policy("bob").rate == 2.5
    assert drafted.policy("alice").purposes == PURPOSES
    assert drafted.signatures == {}


def test_a_signed_agreement_survives_its_file(signed: Agreement, tmp_path: Path) -> None:
    signed.check_signed()
    found = Agreement.read(signed.write(tmp_path / "agreement.json"))
    found.check_signed()
    assert (found, found.fingerprint) == (signed, signed.fingerprint)


def test_the_fingerprint_is_of_all_that_the_file_says_but_the_signatures(signed: Agreement, tmp_path: Path) -> None:
    values = json.loads(signed.write(tmp_path / "agreement.json").read_text())
    del values["signatures"]
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert signed.fingerprint == sha256(text.encode()).hexdigest()
    assert replace(signed, signatures={}).fingerprint == signed.fingerprint


def test_every_party_builds_the_same_network(signed: Agreement) -> None:
    model, own = signed.build(), network()
    assert model.card == own.card
    own.module.load_state_dict(model.module.state_dict())
    torch.testing.assert_close(model.logits(DATA.x), own.logits(DATA.x), rtol=0, atol=0)


def test_who_has_not_signed_is_named(drafted: Agreement, people: dict[str, Identity]) -> None:
    with pytest.raises(GovernError, match="is not signed by: alice, carol"):
        drafted.sign(people["bob"]).check_signed()


def test_a_signature_fits_only_its_own_party(signed: Agreement) -> None:
    swapped = {**signed.signatures, "alice": signed.signatures["bob"], "bob": signed.signatures["alice"]}
    with pytest.raises(GovernError, match="The signature of 'alice' is not under this agreement"):
        replace(signed, signatures=swapped).check_signed()


def test_a_signature_fits_only_its_own_agreement(signed: Agreement, people: dict[str, Identity]) -> None:
    other = replace(signed, seed=4).sign(people["alice"]).sign(people["carol"])
    with pytest.raises(GovernError, match="The signature of 'bob' is not under this agreement"):
        other.check_signed()


def test_a_stranger_cannot_sign(drafted: Agreement, people: dict[str, Identity], tmp_path: Path) -> None:
    with pytest.raises(
        GovernError, match=r"'dave' is not a party to the agreement 'dense-of-three'. The parties: alice, bob"
    ):
        drafted.sign(Identity.at(tmp_path / "dave", "dave"))
    with pytest.raises(GovernError, match="names another key for 'alice'"):
        drafted.sign(Identity.at(tmp_path / "alice", "alice"))


def leaves(values: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every value in a tree of JSON, branches included."""
    if path:
        yield path
    if isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from leaves(value, (*path, key))


def change(tree: Any, path: tuple[str | int, ...], new: Any) -> Any:
    changed = copy.deepcopy(tree)
    *way, last = path
    inner = changed
    for step in way:
        inner = inner[step]
    inner[last] = new
    return changed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


def near(value: Any) -> st.SearchStrategy[Any]:
    """Another value of the same kind, which a careless check would let through."""
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int | float):
        return st.integers(-2, 100) | st.floats(-2, 100) | st.just(value + 1)
    if isinstance(value, str):
        return st.text(max_size=8) | st.sampled_from([value + "0", value[:-1], value.upper(), "alice", "bob", "input"])
    if isinstance(value, list):
        return st.sampled_from([value[:-1], value[::-1], [*value, *value]])
    if isinstance(value, dict):
        return st.sampled_from([{}, dict(list(value.items())[1:]), {**value, "more": 1}])
    return st.sampled_from([0, 1, 2.5, "", "0", []])


@given(st.data())
def test_no_changed_value_of_a_signed_agreement_goes_through(
    signed: Agreement, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("altered") / "agreement.json"
    values = json.loads(signed.write(path).read_text())
    place = data.draw(st.sampled_from(list(leaves(values))))
    old = values
    for step in place:
        old = old[step]
    new = data.draw((JSON | near(old)).filter(lambda new: new != old or type(new) is not type(old)))
    path.write_text(json.dumps(change(values, place, new)))
    try:
        found = Agreement.read(path)
        found.check_signed()
    except GovernError:
        return
    # The only other way to write the same: an integer where a number is meant, or another order of keys.
    assert (found, found.fingerprint) == (signed, signed.fingerprint)


@given(st.data())
def test_no_changed_byte_of_a_signed_agreement_goes_through(
    signed: Agreement, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = signed.write(tmp_path_factory.mktemp("altered") / "agreement.json")
    text = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(text)
    try:
        found = Agreement.read(path)
        found.check_signed()
    except GovernError:
        return
    assert (found, found.fingerprint) == (signed, signed.fingerprint)  # only a space is another space now


@pytest.mark.parametrize("length", [0, 1, 500, -3])
def test_a_truncated_agreement_is_refused(signed: Agreement, tmp_path: Path, length: int) -> None:
    path = signed.write(tmp_path / "agreement.json")
    path.write_text(path.read_text()[:length])
    with pytest.raises(GovernError, match=r"is not an agreement: .*Was it copied completely"):
        Agreement.read(path)


@pytest.mark.parametrize(
    "inside", [(), ("card",), ("recipe", "optimizer"), ("wire",), ("parties", 0), ("cuts", 0)], ids=repr
)
def test_an_unknown_field_is_named(signed: Agreement, tmp_path: Path, inside: tuple[str | int, ...]) -> None:
    path = signed.write(tmp_path / "agreement.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()), (*inside, "extra"), 1)))
    with pytest.raises(GovernError, match=r"is not an agreement, at .*extra: Unexpected keyword argument"):
        Agreement.read(path)


def test_a_key_that_stands_twice_is_refused(signed: Agreement, tmp_path: Path) -> None:
    path = signed.write(tmp_path / "agreement.json")
    path.write_text(path.read_text().replace('"seed": 3', '"seed": 4, "seed": 3'))
    with pytest.raises(GovernError, match="a key stands twice"):
        Agreement.read(path)


Change = Callable[[Agreement, dict[str, Identity]], dict[str, Any]]
REFUSED: dict[str, tuple[Change, str]] = {
    "one party": (lambda a, _: {"parties": a.parties[:1]}, "between two parties or more. Got 1"),
    "the same party twice": (
        lambda a, _: {"parties": (*a.parties, replace(a.parties[0], address="127.0.0.1:9"))},
        "The parties 'alice' and 'alice' have the same name",
    ),
    "the same address twice": (
        lambda a, _: {"parties": (*a.parties[:2], replace(a.parties[2], address="127.0.0.1:7401"))},
        "The parties 'alice' and 'carol' have the same address: 127.0.0.1:7401",
    ),
    "an unknown holder": (
        lambda a, _: {"holders": ("alice", "bob", "dave")},
        "'dave' holds something, but is not a party. The parties: alice, bob, carol",
    ),
    "too few holders": (
        lambda a, _: {"holders": ("alice", "bob")},
        "2 cuts make 3 pieces, and each has a holder. Got 2",
    ),
    "one holds all": (lambda a, _: {"holders": ("alice",) * 3}, "All pieces are with 'alice'"),
    "a party without a part": (
        lambda a, _: {"labels": replace(a.labels, holder="bob")},
        "The party 'carol' holds nothing: no piece, no data and no labels",
    ),
    "no cut": (lambda a, _: {"cuts": (), "holders": ("alice",)}, "cut at one place or more, each once. Got none"),
    "the same cut twice": (lambda a, _: {"cuts": (Place("x"), Place("x"))}, "each once. Got x, x"),
    "a cut that hides": (lambda a, _: {"cuts": (Place("x\u202e"), Place("y"))}, "Got 'x\\u202e'"),
    "rows that differ": (lambda a, _: {"labels": replace(a.labels, rows=19)}, "20 rows of data, but 19 labels"),
    "a model nobody can build": (
        lambda a, _: {"card": replace(a.card, architecture=None)},
        "one with architecture='package.module:factory'",
    ),
    "a model by a path": (lambda a, _: {"card": replace(a.card, architecture="/tmp/net.py:f")}, "Got '/tmp/net.py:f'"),
    "arguments that are no JSON": (
        lambda a, _: {"card": replace(a.card, arguments={"hidden": object()})},
        "must be JSON values",
    ),
    "early stopping": (
        lambda a, _: {"recipe": replace(a.recipe, early_stop=EarlyStop(3))},
        "A recipe with early_stop cannot be agreed on",
    ),
    "poisson sampling": (lambda a, _: {"recipe": replace(a.recipe, sampling="poisson")}, "Got 'poisson'"),
    "replays": (lambda a, _: {"recipe": replace(a.recipe, replays=2)}, "(replays=1). Got 2"),
    "an objective without a package": (lambda a, _: {"objective": "hinge"}, "'package.module:name'. Got 'hinge'"),
    "a negative seed": (lambda a, _: {"seed": -1}, "from 0 to 2**63 - 1. Got -1"),
    "checkpoints at no step": (lambda a, _: {"checkpoint_every": 0}, "at least 1. Got 0"),
    "a path as its name": (lambda a, _: {"name": "../plan"}, "The name of an agreement is"),
    "a stranger's policy": (lambda a, _: {"policies": {"dave": {}}}, "There is a policy of 'dave', who is not a party"),
    "a stranger's signature": (
        lambda a, _: {"signatures": {"dave": "0" * 128}},
        "There is a signature of 'dave', who is not a party",
    ),
    "a signature of another spelling": (
        lambda a, p: {"signatures": {"bob": a.sign(p["bob"]).signatures["bob"].upper()}},
        "The signature of 'bob' is not 128 hexadecimal digits",
    ),
    "a policy with an unknown rule": (
        lambda a, _: {"policies": {"bob": {"purpose": "train"}}},
        "The policy of 'bob' cannot be agreed on",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_agreed_on_is_named(drafted: Agreement, people: dict[str, Identity], what: str) -> None:
    alter, sentence = REFUSED[what]
    with pytest.raises(InputError) as refused:
        replace(drafted, **alter(drafted, people))
    assert sentence in str(refused.value)


def test_two_names_of_one_key_are_refused(drafted: Agreement, people: dict[str, Identity], tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(people["alice"].key_file.read_bytes())
    (tmp_path / "key.pem").chmod(0o600)
    twin = Identity.at(tmp_path, "bob").public
    member = Member(twin.name, twin.public_key, twin.proof, address="127.0.0.1:7402")
    with pytest.raises(InputError, match="The parties 'alice' and 'bob' have the same public_key"):
        replace(drafted, parties=(drafted.parties[0], member, drafted.parties[2]))


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":7401", "host:0", "host:65536", "host:07401", "a b:1", "::1:7", "h:1\n"]
)
def test_an_address_that_nobody_can_listen_at_is_refused(drafted: Agreement, address: str) -> None:
    with pytest.raises(InputError, match="The address of 'bob' is 'host:port'"):
        replace(drafted.member("bob"), address=address)


@pytest.mark.parametrize("print_", ["", "0" * 63, "G" * 64, "A" * 64])
def test_a_fingerprint_is_a_sha256(print_: str) -> None:
    with pytest.raises(InputError, match="A fingerprint is a SHA-256"):
        Material("alice", print_, 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("dtype", "float16"), ("compression", "gzip"), ("deadline", 0.0), ("deadline", float("inf")), ("largest", 10)],
    ids=["dtype", "compression", "no deadline", "endless deadline", "largest"],
)
def test_a_wire_that_does_not_exist_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"The '{field}' parameter of Wire must be"):
        Wire(**{field: value})


def test_a_draft_needs_a_network_that_can_be_built_and_an_address_each(people: dict[str, Identity]) -> None:
    def drafting(model: Model, addresses: dict[str, str]) -> Agreement:
        return draft(
            "two",
            model,
            parties=[people["alice"].public, people["bob"].public],
            addresses=addresses,
            cuts=["linear1"],
            holders=["alice", "bob"],
            data=Material.inputs("alice", DATA),
            labels=Material.labels("alice", DATA),
            recipe=Recipe(epochs=1),
        )

    assert drafting(network(), ADDRESSES).holders == ("alice", "bob")
    with pytest.raises(InputError, match="There is no address of: bob"):
        drafting(network(), {"alice": "127.0.0.1:7401"})
    with pytest.raises(InputError, match="one with architecture="):
        drafting(Model(nn.Linear(6, 3), input_shape=(6,), classes=3), ADDRESSES)


def test_a_person_reads_who_holds_what(drafted: Agreement, people: dict[str, Identity]) -> None:
    half = drafted.sign(people["alice"])
    stale = replace(half, signatures={**half.signatures, "carol": half.signatures["alice"]})
    rows = dict(stale.summary())
    assert rows["alice"] == "piece 1, piece 3, the data · at 127.0.0.1:7401 · signed"
    assert rows["bob"] == "piece 2 · at [::1]:7402 · not signed"
    assert rows["carol"] == "the labels · at carol.example.org:7403 · SIGNATURE DOES NOT FIT"
    assert rows["cut after"] == "linear1_relu, linear2_relu (call 0)"
    assert rows["policy of bob"] == json.dumps(POLICY)
    assert rows["fingerprint"] == drafted.fingerprint


def test_what_others_wrote_is_shown_as_it_is(drafted: Agreement) -> None:
    card = replace(drafted.card, arguments={"[bold]": "[/] \x1b[2J"})
    console = Console(width=200)
    with console.capture() as capture:
        console.print(replace(drafted, card=card))
    assert "[bold]='[/] \\x1b[2J'" in capture.get()
