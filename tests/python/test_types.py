"""The types of the package, as type checkers read them."""

import ast
import inspect
import pathlib

import millrace

STUB = pathlib.Path(millrace.__file__).parent / "_core.pyi"


def returned(kind, method):
    """The type that the stub gives for the result of a class's method."""
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


def test_the_stub_knows_the_options_that_connect_passes_on():
    (keywords,) = [one for one in ast.parse(STUB.read_text()).body
                   if isinstance(one, ast.ClassDef) and one.name == "SessionKeywords"]
    given = {one.target.id: ast.unparse(one.annotation) for one in keywords.body}
    assert given["priority"] == "int" and given["packed"] == "bool"
    assert given["connect_timeout"] == "float" and given["index_dtype"] == "str"
    assert set(given) < set(inspect.signature(millrace.connect).parameters)
