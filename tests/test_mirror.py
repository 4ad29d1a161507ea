"""The tests mirror the source: each module has a test at its own path, or `mirror.toml` names one that covers it."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "modelkeep"
MIRROR = TESTS / "mirror.toml"


@cache
def entries() -> dict[str, dict[str, str]]:
    """The tables of `mirror.toml`: `covered` (module → test file) and `across` (test file → what it tests)."""
    return tomllib.loads(MIRROR.read_text(encoding="utf-8"))


def modules() -> list[str]:
    """The modules that need a test, as paths below `src/modelkeep`."""
    found = (path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
    return sorted(
        path.relative_to(SOURCE).as_posix() for path in found if not path.stem.endswith(("_pb2", "_pb2_grpc"))
    )


def mirror_of(module: str) -> str:
    """Where the test of a module stands.

    >>> mirror_of("core/data.py")
    'tests/core/test_data.py'
    """
    folder, _, name = module.rpartition("/")
    return "/".join(part for part in ("tests", folder, f"test_{name}") if part)


def test_each_module_has_a_test() -> None:
    covered = entries()["covered"]
    missing = [each for each in modules() if not exists(mirror_of(each)) and each not in covered]
    lines = "".join(f'\n  "{each}" = "tests/…/test_….py"   # or write {mirror_of(each)}' for each in missing)
    assert not missing, f"These modules have no test. Name the one that covers each in {MIRROR.name}, [covered]:{lines}"


def test_the_named_tests_exist_and_use_what_they_cover() -> None:
    gone = {module: test for module, test in entries()["covered"].items() if not exists(test)}
    assert not gone, f"{MIRROR.name} names test files that do not exist (moved?): {gone}"
    present = [(module, test) for module, test in entries()["covered"].items() if (SOURCE / module).exists()]
    unused = [f"{test} for {module}" for module, test in present if not uses(TESTS.parent / test, module)]
    assert not unused, f"These tests name neither their module nor one of its public names: {unused}"


def test_no_entry_is_stale() -> None:
    covered, across = entries()["covered"], entries()["across"]
    gone = [module for module in covered if not (SOURCE / module).exists()]
    mirrored = [module for module in covered if exists(mirror_of(module))]
    tests = [test for test in across if not exists(test)]
    assert not gone, f"Take these out of {MIRROR.name}, [covered]: the modules are gone or have another name: {gone}"
    assert not mirrored, f"Take these out of {MIRROR.name}, [covered]: they have a test of their own: {mirrored}"
    assert not tests, f"Take these out of {MIRROR.name}, [across]: there are no such tests: {tests}"


def test_each_test_file_is_that_of_a_module_or_goes_across() -> None:
    mirrors = {mirror_of(each) for each in modules()}
    known = mirrors | set(entries()["across"])
    files = sorted(path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py"))
    strange = [each for each in files if each not in known]
    assert not strange, (
        f"No module has these tests: {strange}. Rename each after its module, or say in {MIRROR.name}, [across], "
        "what it tests across several."
    )


def exists(test: str) -> bool:
    """Whether there is such a test file."""
    return (TESTS.parent / test).is_file()


def uses(test: Path, module: str) -> bool:
    """Whether a test names a module, or one that imports it: a small module is tested through its caller."""
    return any(names(test, each) for each in (module, *importers(module)))


def names(test: Path, module: str) -> bool:
    """Whether a test, or a file of the tests that it imports, names a module or one of its public names."""
    return dotted(module) in names_in(test) or bool(public_names(SOURCE / module) & names_in(test))


def dotted(module: str) -> str:
    """The name by which a module is imported."""
    return "modelkeep." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def importers(module: str) -> tuple[str, ...]:
    """The modules that import a module, its package among them."""
    return tuple(each for each in _names_by_source() if each != module and dotted(module) in _names_by_source()[each])


@cache
def _names_by_source() -> dict[str, frozenset[str]]:
    """The names that each file of the source uses."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): names_in(path, with_helpers=False) for path in paths}


@cache
def public_names(module: Path) -> frozenset[str]:
    """The public names that a module defines at its top, and those under which it declares methods and data sets."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "declare":
            found |= {str(each.value).replace("-", "_") for each in node.args[1:] if isinstance(each, ast.Constant)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return frozenset(name for name in found if not name.startswith("_"))


@cache
def names_in(test: Path, with_helpers: bool = True) -> frozenset[str]:
    """The modules, names and words that a test file uses; those of the files of the tests that it imports, too.

    A word may be a text of its own: a test of the command line says "verify", and its module defines `verify`.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value.replace("-", "_"), node.value.partition(":")[0]}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= {alias.name for alias in node.names}
    if with_helpers:
        for helper in [
            TESTS / f"{name.replace('.', '/')}.py" for name in found if name.replace(".", "").isidentifier()
        ]:
            if helper.is_file() and helper != test:
                found |= names_in(helper, with_helpers=False)
    return frozenset(found)
