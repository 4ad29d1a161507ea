"""The files for CI, pre-commit and containers: what they run exists and takes the options that they give.

None of them is run here: there is no GitHub, no GitLab and no container engine in a test. Their forms were checked once
with `check-jsonschema` (GitHub's, GitLab's and Compose's schemas) and `pre-commit validate-manifest`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from modelkeep import cli
from modelkeep.core.registry import declarations
from modelkeep.guard.gateway.assembly import make_plan
from modelkeep.guard.gateway.config import read_config
from modelkeep.zoo import embedded

ROOT = Path(__file__).parent.parent
INTEGRATIONS = ROOT / "integrations"
ACTION = INTEGRATIONS / "github" / "action.yml"
GITLAB = INTEGRATIONS / "gitlab" / "modelkeep.gitlab-ci.yml"
COMPOSE = INTEGRATIONS / "container" / "compose.yaml"
CONTAINER = INTEGRATIONS / "container" / "Containerfile"
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def commands() -> list[tuple[str, list[str]]]:
    """Every call of `modelkeep` in these files, as the file and the words after the name."""
    shells = [(ACTION.name, step["run"]) for step in read(ACTION)["runs"]["steps"] if "run" in step]
    job = read(GITLAB)["modelkeep"]
    shells += [(GITLAB.name, line) for line in [*job["script"], *job["after_script"]]]
    shells += [(HOOKS.name, hook["entry"]) for hook in read(HOOKS)]
    shells += [
        (HOOKS.name, f"modelkeep audit {' '.join(args.split(', '))}")
        for hook in read(HOOKS)
        for args in re.findall(r"`args` \[(.*?)\]", hook["description"])
    ]
    found = [
        (name, shlex.split(line)[1:])
        for name, text in shells
        for line in text.splitlines()
        if line.strip().startswith("modelkeep ")
    ]
    (command,) = re.findall(r"^CMD \[(.*)\]$", CONTAINER.read_text(), re.MULTILINE)
    assert 'ENTRYPOINT ["modelkeep"]' in CONTAINER.read_text()
    found.append((CONTAINER.name, [word.strip(' "') for word in command.split(",")]))
    found.append((COMPOSE.name, read(COMPOSE)["services"]["guard"]["command"]))
    return found


def test_each_file_runs_modelkeep() -> None:
    assert {name for name, _ in commands()} == {each.name for each in (ACTION, GITLAB, HOOKS, CONTAINER, COMPOSE)}


@pytest.mark.parametrize(("name", "words"), commands(), ids=lambda each: each if isinstance(each, str) else each[0])
def test_what_is_run_exists_and_takes_these_options(name: str, words: list[str]) -> None:
    command: Any = typer.main.get_command(cli.app)
    while hasattr(command, "commands"):
        assert words[0] in command.commands, f"{name} runs 'modelkeep {words[0]}', which does not exist"
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    given = {word for word in words if word.startswith("--")}
    assert given <= known, f"{name} gives options that do not exist: {given - known}"


def test_the_action_uses_each_input_and_no_other() -> None:
    action = read(ACTION)
    used = set(re.findall(r"\binputs\.([\w-]+)", ACTION.read_text()))
    assert used == set(action["inputs"])
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert not any("${{" in script for script in scripts), "an input in a script is run by the shell"


@pytest.mark.parametrize(("name", "words"), [each for each in commands() if "--format" in each[1]])
def test_the_formats_that_they_ask_for_exist(name: str, words: list[str]) -> None:
    wanted = words[words.index("--format") + 1]
    assert wanted in declarations("report-format"), f"{name} asks for {wanted}"


def test_the_containers_settings_are_those_of_the_gateway(tmp_path: Path) -> None:
    """`guard check` opens no store, so it can look at settings that name a database elsewhere."""
    settings = tmp_path / "guard.toml"
    settings.write_text((INTEGRATIONS / "container" / "guard.toml").read_text())
    embedded.digits_cnn().save(tmp_path / "model.safetensors")
    config = read_config(settings)
    make_plan(config)
    published = {line.rpartition(":")[2] for line in read(COMPOSE)["services"]["guard"]["ports"]}
    assert published == {str(config.server.port), str(config.server.grpc_port)}
    database = read(COMPOSE)["services"]["database"]["environment"]
    assert config.store.url == f"postgresql://{database['POSTGRES_USER']}@database/{database['POSTGRES_DB']}"


def test_what_is_copied_into_the_container_is_there() -> None:
    ignored = set((ROOT / ".dockerignore").read_text().split())
    needed = {"src", "pyproject.toml", "README.md", "LICENSE"}
    assert not ignored & needed
    assert all((ROOT / each).exists() for each in needed)
