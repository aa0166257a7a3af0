"""What type checkers read of the package."""

import ast
import pathlib

import millrace

STUB = pathlib.Path(millrace.__file__).parent / "_core.pyi"


def returned(kind, method):
    """What a method of a class of the stub returns."""
    for one in ast.walk(ast.parse(STUB.read_text())):
        if isinstance(one, ast.ClassDef) and one.name == kind:
            (function,) = [f for f in one.body if getattr(f, "name", "") == method]
            return ast.unparse(function.returns)
    raise AssertionError(f"no class {kind}")


def test_the_stub_parses_and_knows_tensors():
    assert returned("Batch", "__getitem__") == returned("Batch", "stack") == "Tensor"
    assert returned("Batch", "items") == "list[tuple[str, Tensor]]"
    assert returned("Tensor", "torch") == "Any"
    assert "__version__: str" in STUB.read_text().splitlines()
