"""Forms come from the declarations: what is declared appears, and a line means what the command line means."""

from __future__ import annotations

import shlex

import pytest

from modelkeep.cli.forms import CommandLineForms
from modelkeep.core.errors import InputError, ModelKeepError
from modelkeep.core.method import options_of
from modelkeep.core.registry import declarations, find
from modelkeep.web.forms import make_words, show_line

FORMS = CommandLineForms()
PGD = {"model": "digits-cnn", "data": "digits", "method": "pgd", "radius": "8/255", "out": "some where"}


def test_every_verb_has_a_form_with_help_for_each_field() -> None:
    for verb in FORMS.verbs:
        form = FORMS.form(verb, {})
        assert form.help
        assert form.fields
        assert all(field.help for field in form.fields), verb
        assert len({field.name for field in form.fields}) == len(form.fields)


@pytest.mark.parametrize("name", declarations("attack"))
def test_the_settings_of_a_declared_method_are_its_fields(name: str) -> None:
    form = FORMS.form("attack", {"method": name})
    fields = {field.name: field for field in form.fields}
    assert name in fields["method"].choices
    from modelkeep.core.method import text_type

    declared = [option for option in options_of(find("attack", name).load()) if text_type(option) is not None]
    for option in declared:
        assert option.name in fields
        assert option.setting.doc in fields[option.name].help or option.name in ("radius", "seed")


def test_the_line_is_what_a_terminal_takes() -> None:
    form = FORMS.form("attack", PGD)
    words = make_words(form, PGD | {"examples": "500", "curve": "off", "steps": "7"})
    assert "--examples" not in words  # the default
    assert words[:2] == ["attack", "digits-cnn"]
    assert words[words.index("--out") + 1] == "some where"
    assert "--no-curve" in words
    assert shlex.split(show_line(words)) == ["modelkeep", *words]
    FORMS.check(words)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"radius": "-1"}, "above 0"),
        ({"radius": ""}, "needs --radius"),
        ({"radius": "far"}, "--radius must be a number"),
        ({"steps": "0"}, "at least 1"),
        ({"steps": "many"}, "a whole number"),
        ({"norm": "l7"}, "--norm must be one of"),
        ({"examples": "0"}, "--examples must be at least 1"),
        ({"method": "pgdd"}, "Did you mean 'pgd'"),
    ],
)
def test_what_the_command_refuses_the_form_refuses(values: dict[str, str], told: str) -> None:
    given = PGD | values
    with pytest.raises(ModelKeepError) as refused:
        FORMS.check(make_words(FORMS.form("attack", given), given))
    assert told in refused.value.on_command_line({})


@pytest.mark.parametrize(
    "values", [{"model": "--out=/etc"}, {"model": "-x"}, {"nothing": "1"}, {"json": "on"}, {"as_json": "on"}]
)
def test_no_option_comes_in_by_another_field(values: dict[str, str]) -> None:
    with pytest.raises(InputError):
        make_words(FORMS.form("attack", {"method": "pgd"}), PGD | values)


def test_an_argument_of_a_list_is_one_of_it() -> None:
    form = FORMS.form("study run", {})
    assert set(form.fields[0].choices) == set(declarations("study"))
    with pytest.raises(InputError, match="Did you mean 'plasticity'"):
        make_words(form, {"name": "plasticty"})


def test_what_looks_like_an_option_stays_a_value() -> None:
    given = PGD | {"out": "--method=cw"}
    words = make_words(FORMS.form("attack", given), given)
    assert words[words.index("--out") + 1] == "--method=cw"
    with pytest.raises(InputError, match="There is no form"):
        FORMS.form("guard serve", {})
