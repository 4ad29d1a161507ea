"""Closure: the code that made a result, as a hash of each module of ours that its process had imported.

What cannot change a result does not count: comments, docstrings, blank lines, the texts of errors and, in the trial's
own module, what the trial's function does not use, such as the report on the results.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

from modelkeep.core.sources import parse
from modelkeep.core.version import __version__

File = tuple[str, int, int]
"""The path of a file, the time of its last change and its size."""

Closure = Mapping[str, str]
"""By module (and by `module:function` for the trial's own) the hash of its code."""

# They start, show and record trials; no value depends on them.
_BESIDE = (
    "modelkeep.cli",
    "modelkeep.core.errors",
    "modelkeep.core.plots",
    "modelkeep.core.progress",
    "modelkeep.core.registry",
    "modelkeep.core.sources",
    "modelkeep.papers.bibliography",
    "modelkeep.papers.curves",
    "modelkeep.papers.result",
    "modelkeep.papers.study",
    "modelkeep.papers.table",
    "modelkeep.report",
    "modelkeep.study",
)
_loaded: WeakKeyDictionary[ModuleType, File] = WeakKeyDictionary()
_hashes: dict[tuple[File, str], str] = {}


def loaded_files(home: str) -> dict[str, File]:
    """The files that this process has imported, of modelkeep and of the package of the trial at `home` (may be empty).

    Each as it was when it was first seen here: a file that is edited later is not the code that runs.
    """
    module = home.partition(":")[0]
    packages = {"modelkeep", module.split(".")[0]}
    found: dict[str, File] = {}
    for name, loaded in sorted(sys.modules.items()):
        path = getattr(loaded, "__file__", None) if name.split(".")[0] in packages else None
        if path is None or not path.endswith(".py") or _is_beside(name):
            continue
        if loaded not in _loaded:
            _loaded[loaded] = _file(Path(path))
        found[home if name == module else name] = _loaded[loaded]
    return found


def hash_files(files: Mapping[str, File]) -> dict[str, str]:
    """The closure of loaded files. A file that was edited before it could be hashed has a hash that is never found."""
    return {key: _hash_file((path, time, size), key.partition(":")[2]) for key, (path, time, size) in files.items()}


def closure_of(home: str) -> dict[str, str]:
    """The code that this process has imported, of modelkeep and of the package of the trial at `home`."""
    return hash_files(loaded_files(home))


def changed_files(closure: Closure) -> tuple[str, ...]:
    """The files whose code is not what it was: `attack/gradient/pgd.py`, or `mine/trials.py` of another package."""
    return tuple(_show(key) for key, kept in closure.items() if _hash_now(key, kept) != kept)


def _hash_now(key: str, kept: str) -> str:
    path = _path_of(key.partition(":")[0])
    if path is None:
        return "gone"
    if "+" in kept:  # a ledger of format 1 knew modelkeep's version and the bytes of the function's module
        return f"{__version__}+{sha256(path.read_bytes()).hexdigest()[:16]}"
    return _hash_file(_file(path), key.partition(":")[2])


def _is_beside(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in _BESIDE)


def _show(key: str) -> str:
    module = key.partition(":")[0]
    return f"{module.removeprefix('modelkeep.').replace('.', '/')}.py"


def _path_of(module: str) -> Path | None:
    """The file of a module, without importing the packages above it."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except ValueError:  # __main__
        return None
    if spec is None:
        return None
    if not rest and spec.origin is not None:
        return Path(spec.origin)
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *rest)
        for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if path.is_file():
                return path
    return None


def _file(path: Path) -> File:
    try:
        stat = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), stat.st_mtime_ns, stat.st_size


def _hash_file(file: File, function: str) -> str:
    if (file, function) not in _hashes:
        if _file(Path(file[0])) != file:
            return "edited"
        _hashes[file, function] = hash_code(Path(file[0]).read_bytes(), function)
    return _hashes[file, function]


def hash_code(source: str | bytes, function: str = "") -> str:
    """The hash of what a module does, or of what one of its functions does with all that it uses of the module.

    >>> hash_code("x = 1  # why") == hash_code("x = 1")
    True
    """
    body = parse(source)
    if function:
        body = _used_by(function, body)
    return sha256(_text(body).encode()).hexdigest()[:16]


def _used_by(function: str, body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module that define the function and, in turn, the names in them; and those without a name."""
    named: dict[str, list[ast.stmt]] = {}
    used: list[ast.stmt] = []
    for statement in body:
        names = list(_names(statement))
        for name, part in names:
            named.setdefault(name, []).append(part)
        if not names and not _for_types(statement):
            used.append(statement)  # it may do anything
    if function not in named:
        return body
    seen = {function}
    waiting = [*used, *named[function]]
    found: dict[int, ast.stmt] = {}
    while waiting:
        statement = waiting.pop()
        found[id(statement)] = statement
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id in named and node.id not in seen:
                seen.add(node.id)
                waiting += named[node.id]
    return sorted(found.values(), key=lambda each: (each.lineno, each.col_offset, _text(each)))


def _names(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """What a statement defines at the top of a module; of an import each name by itself."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name, statement
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            one = ast.Import([alias])
            if isinstance(statement, ast.ImportFrom):
                one = ast.ImportFrom(statement.module, [alias], statement.level)  # type: ignore[assignment]
            yield (alias.asname or alias.name).split(".")[0], ast.copy_location(one, statement)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id, statement


def _for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING")


def _text(node: object, raising: bool = False) -> str:
    """A node as text, without positions, docstrings and the texts of errors and settings.

    Not `ast.dump`: that writes empty fields, which differ between versions of Python.
    """
    if isinstance(node, list):
        return f"[{','.join(_text(each, raising) for each in node if not _is_text(each))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if raising and (isinstance(node, ast.JoinedStr) or _is_constant_text(node)):
        return "text"
    raising = raising or isinstance(node, ast.Raise)
    parts = []
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.Call) and name == "args" and _text_comes_first(node):
            value = value[1:]
        if value is not None and value != [] and name != "kind":
            parts.append(f"{name}={_text(value, raising)}")
    return f"{type(node).__name__}({','.join(parts)})"


def _is_text(statement: object) -> bool:
    """Whether it is a docstring, of a module, a class, a function or a constant."""
    return isinstance(statement, ast.Expr) and _is_constant_text(statement.value)


def _is_constant_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _text_comes_first(call: ast.Call) -> bool:
    """Whether its first argument is a line of documentation: `setting("How far.", default=0.1)`."""
    return isinstance(call.func, ast.Name) and call.func.id == "setting"
