"""Every operation of docs/reference/tensors.md against numpy, at the worker and at the consumer."""

import itertools
import math

import numpy
import plain_tensors as plain
import pytest
from conftest import run
from plain_tensors import DTYPES, FLOATS, INTEGERS, Case, Tensor

import millrace

ROWS = 23
SHAPES = [(), (1,), (3,), (8,), (2, 3), (4, 1, 2), (3, 2, 2, 2)]


@pytest.fixture
def rng(request):
    return numpy.random.default_rng(sum(request.node.name.encode()))


def random_sources(rng, count, shapes=None, dtypes=None):
    """Tensors a0, a1, … of random types."""
    return {f"a{i}": plain.sample(rng, str(rng.choice(dtypes or DTYPES)),
                                  (ROWS, *(shapes or SHAPES)[i % len(shapes or SHAPES)]))
            for i in range(count)}


def random_axis(rng, rank):
    """An axis after the rows, and how a user may write it."""
    axis = int(rng.integers(1, rank))
    return axis, axis - rank if rng.integers(2) else axis


def test_the_table_has_the_operations_that_are_compared_here():
    table = [line.split()[0] for line in run("inspect", "--operations").splitlines()
             if " (reads " in line]
    assert table == ["bits", "slice", "take", "reshape", "transpose", "cast", "view", "expr",
                     "one_hot", "concat", "stack", "length", "lookup", "python"]  # test_plugin_functions


def test_bits_are_those_of_unpackbits(tmp_path, rng):
    sources = {f"a{i}": plain.sample(rng, "uint8", (ROWS, *shape))
               for i, shape in enumerate([(1,), (7,), (2, 3), (3, 1), (40,), (194,)])}
    cases = []
    for name, tensor in sources.items():
        for order, bitorder in ((None, "big"), ("msb", "big"), ("lsb", "little")):
            definition = {"bits": f"target.{name}"} | ({"order": order} if order else {})
            bits = numpy.unpackbits(tensor.array, axis=-1, bitorder=bitorder)
            cases.append(Case(definition, Tensor("uint8", bits)))
    # `order: msb` is the default, so that definition is the same tensor.
    cases = [case for case in cases if case.definition.get("order") != "msb"]
    assert plain.check(tmp_path / "g", sources, cases) == 12


def test_slices_are_those_of_numpy(tmp_path, rng):
    sources = random_sources(rng, 40, SHAPES[1:])
    cases = []
    for name, tensor in sources.items():
        for _ in range(4):
            axis, written = random_axis(rng, tensor.array.ndim)
            extent = tensor.array.shape[axis]
            begin = int(rng.integers(0, extent))
            end = int(rng.integers(begin + 1, extent + 1))
            part = tensor.array[(slice(None),) * axis + (slice(begin, end),)]
            a = begin - extent if rng.integers(2) else begin
            b = end - extent if end < extent and rng.integers(2) else end
            definition = {"slice": f"target.{name}", "range": [a, b]}
            cases.append(Case(definition | ({} if written == 1 else {"axis": written}),
                              tensor.with_array(part)))
    assert plain.check(tmp_path / "g", sources, cases) > 60


def test_take_is_that_of_numpy(tmp_path, rng):
    sources = random_sources(rng, 40, SHAPES[1:])
    cases = []
    for name, tensor in sources.items():
        for single in (True, False, False):
            axis, written = random_axis(rng, tensor.array.ndim)
            extent = tensor.array.shape[axis]
            index = rng.integers(-extent, extent, () if single else int(rng.integers(1, 12)))
            definition = {"take": f"target.{name}", "index": index.tolist()}
            cases.append(Case(definition | ({} if written == 1 else {"axis": written}),
                              tensor.with_array(numpy.take(tensor.array, index, axis))))
    assert plain.check(tmp_path / "g", sources, cases) > 80


def test_reshape_keeps_all_values(tmp_path, rng):
    sources = random_sources(rng, 20)
    cases = []
    for name, tensor in sources.items():
        count = math.prod(tensor.array.shape[1:])
        for shape in ([count], [-1], [1, -1], [count, 1], [2, -1] if count % 2 == 0 else [1, 1, -1]):
            array = tensor.array.reshape(ROWS, *shape)
            cases.append(Case({"reshape": f"target.{name}", "shape": shape},
                              tensor.with_array(array)))
    assert plain.check(tmp_path / "g", sources, cases) > 80


def test_transpose_is_that_of_numpy(tmp_path, rng):
    sources = random_sources(rng, 30, SHAPES[1:])
    cases = []
    for name, tensor in sources.items():
        rank = tensor.array.ndim
        axes = [0, *(1 + rng.permutation(rank - 1)).tolist()]
        written = [axis - rank if axis and rng.integers(2) else axis for axis in axes]
        cases.append(Case({"transpose": f"target.{name}", "axes": written},
                          tensor.with_array(numpy.transpose(tensor.array, axes))))
    assert plain.check(tmp_path / "g", sources, cases) == 30


def test_cast_converts_every_type_into_every_other(tmp_path):
    sources = {f"a_{dtype}": plain.everything(dtype, ROWS) for dtype in DTYPES}
    cases = [Case({"cast": f"target.a_{before}", "dtype": after},
                  plain.cast(sources[f"a_{before}"], after), exact=before == after)
             for before, after in itertools.product(DTYPES, DTYPES)]
    assert plain.check(tmp_path / "g", sources, cases) == 169


def test_random_values_are_cast_as_the_special_ones(tmp_path, rng):
    sources = {f"a_{dtype}": plain.sample(rng, dtype, (ROWS, 5)) for dtype in DTYPES}
    cases = [Case({"cast": f"target.a_{before}", "dtype": after},
                  plain.cast(sources[f"a_{before}"], after), exact=before == after)
             for before, after in itertools.product(DTYPES, DTYPES)]
    assert plain.check(tmp_path / "g", sources, cases) == 169


def test_view_reads_the_same_bytes_as_another_type(tmp_path, rng):
    sources = {f"a_{dtype}": plain.sample(rng, dtype, (ROWS, 3, 8)) for dtype in DTYPES}
    sources |= {f"b_{dtype}": plain.sample(rng, dtype, (ROWS,)) for dtype in DTYPES}
    cases = []
    for name, after in itertools.product(sources, DTYPES):
        tensor = sources[name]
        size = plain.stored(after).itemsize
        if tensor.array.ndim == 1 and size != tensor.array.itemsize:
            continue
        cases.append(Case({"view": f"target.{name}", "dtype": after}, plain.view(tensor, after)))
    assert plain.check(tmp_path / "g", sources, cases) > 200


def test_one_hot_marks_the_place_of_each_number(tmp_path, rng):
    sources, cases = {}, []
    for i, dtype in enumerate(itertools.chain(INTEGERS, INTEGERS)):
        depth = int(rng.integers(1, 9))
        least = -1 if INTEGERS[dtype][0] < 0 else 0
        shape = (ROWS, *SHAPES[i % len(SHAPES)])
        tensor = Tensor(dtype, rng.integers(least, depth, shape).astype(dtype))
        sources[f"a{i}"] = tensor
        cases.append(Case({"one_hot": f"target.a{i}", "depth": depth},
                          plain.one_hot(tensor, depth)))
    assert plain.check(tmp_path / "g", sources, cases) == 16


@pytest.mark.parametrize("dtype", INTEGERS)
def test_one_hot_refuses_other_numbers(tmp_path, dtype):
    least, greatest = INTEGERS[dtype]
    wrong = [4, greatest, *([-2, least] if least < 0 else [])]
    for i, value in enumerate(wrong):
        folder = tmp_path / f"g{i}"
        sources = {"a": Tensor(dtype, numpy.array([0, 3, value, 1], dtype))}
        plain.write(folder, sources)
        for place in ("worker", "consumer"):
            definitions = {"t": {"one_hot": "target.a", "depth": 4, "at": place}}
            session = millrace.reference(plain.pipeline(sources, definitions), folder)
            with pytest.raises(millrace.DataError, match=f"t: one_hot: .*got {value}"):
                list(plain.batches(session))


def test_concat_is_that_of_numpy(tmp_path, rng):
    sources, cases = {}, []
    for i in range(20):
        dtype = DTYPES[i % len(DTYPES)]
        shape = [ROWS, *(int(extent) for extent in rng.integers(1, 5, int(rng.integers(1, 4))))]
        axis, written = random_axis(rng, len(shape))
        names, parts = [], []
        for part in range(int(rng.integers(1, 5))):
            shape[axis] = int(rng.integers(1, 5))
            names.append(f"a{i}_{part}")
            sources[names[-1]] = plain.sample(rng, dtype, shape)
            parts.append(sources[names[-1]].array)
        definition = {"concat": [f"target.{name}" for name in names]}
        cases.append(Case(definition | ({} if written == 1 else {"axis": written}),
                          Tensor(dtype, numpy.concatenate(parts, axis))))
    assert plain.check(tmp_path / "g", sources, cases) == 20


def test_stack_is_that_of_numpy(tmp_path, rng):
    sources, cases = {}, []
    for i in range(20):
        dtype = DTYPES[i % len(DTYPES)]
        shape = (ROWS, *SHAPES[i % len(SHAPES)])
        names = [f"a{i}_{part}" for part in range(int(rng.integers(1, 5)))]
        for name in names:
            sources[name] = plain.sample(rng, dtype, shape)
        axis, written = random_axis(rng, len(shape) + 1)
        definition = {"stack": [f"target.{name}" for name in names]}
        array = numpy.stack([sources[name].array for name in names], axis)
        cases.append(Case(definition | ({} if written == 1 else {"axis": written}),
                          Tensor(dtype, array)))
    assert plain.check(tmp_path / "g", sources, cases) == 20


def test_lookup_gives_rows_of_any_array_by_number(tmp_path, rng):
    tables = {f"t{i}": plain.sample(rng, dtype, (ROWS, *SHAPES[i % len(SHAPES)]))
              for i, dtype in enumerate(DTYPES)}
    sources = {f"a_{dtype}": Tensor(dtype, rng.integers(0, ROWS, (ROWS, *SHAPES[i % 3])).astype(dtype))
               for i, dtype in enumerate(INTEGERS)}
    cases = []
    for i, (name, table) in enumerate(tables.items()):
        source = f"a_{list(INTEGERS)[i % 8]}"
        cases.append(Case({"lookup": f"target.{source}", "table": f"targets/all/{name}"},
                          table.with_array(table.array[sources[source].array.astype(int)])))
    assert plain.check(tmp_path / "g", {**sources, **tables}, cases, places=["worker"]) == 13
    for value, dtype in ((ROWS, "int64"), (-1, "int8"), (255, "uint8"), (2**64 - 1, "uint64")):
        wrong = {"a": Tensor(dtype, numpy.array([0, value], dtype)),
                 "t": plain.sample(rng, "float32", (2, 3))}
        folder = plain.write(tmp_path / f"wrong_{dtype}", wrong)
        definition = {"t0": {"lookup": "target.a", "table": "targets/all/t"}}
        session = millrace.reference(plain.pipeline(wrong, definition), folder)
        with pytest.raises(millrace.DataError, match=f"t0: lookup: .*has 2 rows, .* is {value}"):
            list(plain.batches(session))
    with pytest.raises(millrace.ConfigError, match="lookup runs at the worker only"):
        millrace.reference(plain.pipeline(sources, {"t0": {
            "lookup": "target.a_int8", "table": "targets/all/t0", "at": "consumer"}}), tmp_path / "g")


def numbers_for(rng, dtype, count):
    """Numbers for `scale` or `offset` that can be computed in a type: one, or one for each
    element."""
    real = [0, 1, -1, 3, 0.5, -0.0, 1e30, -2.5e-40, 7, 1e-3, 1.0000001]
    whole = [value for value in (0, 1, 2, 3, 100, 255, -1, -7, 70000, -(1 << 40), 1 << 62)
             if dtype in INTEGERS and INTEGERS[dtype][0] <= value <= INTEGERS[dtype][1]]
    known = real if dtype in FLOATS else whole
    chosen = [known[i] for i in rng.integers(0, len(known), count or 1)]
    return chosen if count else chosen[0]


def random_after(rng, tensor):
    """Steps for after an operation that gives this tensor, or None if they do not suit it."""
    steps = {}
    shape = list(tensor.array.shape[1:])
    if shape and shape[-1] == 1 and rng.integers(2):
        steps["squeeze"] = True
        shape.pop()
    if rng.integers(3) == 0:
        count = math.prod(shape)
        shape = [int(rng.choice([d for d in range(1, count + 1) if count % d == 0])), -1]
        steps["shape"] = list(shape)
        shape[1] = count // shape[0]
    if rng.integers(2):
        steps["dtype"] = str(rng.choice(DTYPES))
    compute = plain.common_type(tensor.dtype, steps.get("dtype", tensor.dtype))
    if compute != "bool":
        for key in ("scale", "offset"):
            if rng.integers(2):
                each = bool(shape) and rng.integers(2)
                steps[key] = numbers_for(rng, compute, shape[-1] if each else None)
    return steps


def is_exact(steps, exact=True):
    """Whether the bits of NaNs are known after such steps: those of moved values, and of computed
    ones, but not of those that are only converted."""
    return bool(steps.keys() & {"scale", "offset"}) or (exact and "dtype" not in steps)


def test_after_steps_follow_in_their_order(tmp_path, rng):
    """After `take`, whose loop they run in, and after `concat`, which is no loop."""
    sources, cases = {}, []
    for i in range(120):
        dtype = DTYPES[i % len(DTYPES)]
        tensor = plain.sample(rng, dtype, (ROWS, *SHAPES[1:][i % (len(SHAPES) - 1)]))
        sources[f"a{i}"] = tensor
        if i % 2:
            definition = {"concat": [f"target.a{i}"]}
        else:
            index = rng.integers(0, tensor.array.shape[1], 2)
            definition = {"take": f"target.a{i}", "index": index.tolist()}
            tensor = tensor.with_array(numpy.take(tensor.array, index, 1))
        steps = random_after(rng, tensor)
        cases.append(Case(definition | steps, plain.after(tensor, **steps), is_exact(steps)))
    assert sum("scale" in case.definition for case in cases) > 30
    assert plain.check(tmp_path / "g", sources, cases) > 110


def test_scale_and_offset_of_every_pair_of_types(tmp_path, rng):
    sources = {f"a_{dtype}": plain.everything(dtype, ROWS) for dtype in DTYPES}
    cases = []
    for before, after in itertools.product(DTYPES, DTYPES):
        compute = plain.common_type(before, after)
        if compute == "bool":
            continue
        tensor = sources[f"a_{before}"]
        steps = {"dtype": after, "scale": numbers_for(rng, compute, None),
                 "offset": numbers_for(rng, compute, tensor.array.shape[1])}
        cases.append(Case({"cast": f"target.a_{before}"} | steps, plain.after(tensor, **steps)))
    assert plain.check(tmp_path / "g", sources, cases) == 168


def test_no_zero_is_negative_after_scale(tmp_path):
    values = numpy.array([0.0, -0.0, 1.0, -1.0])
    sources = {"a": Tensor("float64", values), "b": Tensor("float32", values.astype("float32"))}
    cases = [Case({"cast": f"target.{name}", "dtype": dtype, "scale": scale},
                  plain.packed([0.0 * abs(v) if scale == 0 else (v * scale) + 0.0 for v in values],
                               dtype, (4,)))
             for name, dtype in itertools.product(sources, ("float32", "float64", "float16"))
             for scale in (0, -1, -2.0)]
    for case in cases:
        assert not (numpy.signbit(case.expected.array) & (case.expected.array == 0)).any()
    data = plain.write(tmp_path / "g", sources)
    definitions = {f"t{i}": case.definition for i, case in enumerate(cases)}
    batch, = plain.batches(millrace.reference(plain.pipeline(sources, definitions), data))
    for i, case in enumerate(cases):
        plain.compare(batch, f"t{i}", case.expected, True, case.definition)


def random_step(rng, tensor):
    """One operation on a tensor, its parameters, and what it gives."""
    array, rank = tensor.array, tensor.array.ndim
    kind = rng.choice(["bits", "slice", "take", "transpose", "reshape", "cast", "view"])
    if kind == "bits" and tensor.dtype == "uint8" and rank > 1 and array[0].size < 40:
        order = str(rng.choice(["msb", "lsb"]))
        bitorder = {"msb": "big", "lsb": "little"}[order]
        return "bits", {"order": order}, Tensor("uint8", numpy.unpackbits(
            array, axis=-1, bitorder=bitorder))
    if kind == "slice" and rank > 1:
        axis, written = random_axis(rng, rank)
        begin = int(rng.integers(0, array.shape[axis]))
        end = int(rng.integers(begin + 1, array.shape[axis] + 1))
        return "slice", {"range": [begin, end], "axis": written}, tensor.with_array(
            array[(slice(None),) * axis + (slice(begin, end),)])
    if kind == "take" and rank > 1:
        axis, written = random_axis(rng, rank)
        index = rng.integers(-array.shape[axis], array.shape[axis], int(rng.integers(1, 5)))
        return "take", {"index": index.tolist(), "axis": written}, tensor.with_array(
            numpy.take(array, index, axis))
    if kind == "transpose" and rank > 1:
        axes = [0, *(1 + rng.permutation(rank - 1)).tolist()]
        return "transpose", {"axes": axes}, tensor.with_array(numpy.transpose(array, axes))
    if kind == "reshape" and rank < 4:
        return "reshape", {"shape": [1, -1]}, tensor.with_array(array.reshape(len(array), 1, -1))
    if kind == "view" and rank > 1:
        size = array.shape[-1] * array.itemsize
        fits = [dtype for dtype in DTYPES if size % plain.stored(dtype).itemsize == 0]
        dtype = str(rng.choice(fits))
        return "view", {"dtype": dtype}, plain.view(tensor, dtype)
    dtype = str(rng.choice(["uint8", "uint8", *DTYPES]))
    return "cast", {"dtype": dtype}, plain.cast(tensor, dtype)


def test_chains_of_operations_give_what_each_alone_would(tmp_path, rng):
    """Operations that follow one another are fused, so chains are not the sum of their parts."""
    sources, cases, via = {}, [], {}
    for i in range(80):
        tensor = plain.sample(rng, str(rng.choice(["uint8", *DTYPES])),
                              (ROWS, *SHAPES[i % len(SHAPES)]))
        sources[f"a{i}"] = tensor
        chain, exact = [], True
        for _ in range(int(rng.integers(2, 6))):
            operation, params, made = random_step(rng, tensor)
            # A NaN's bits are as the processor likes them, so nothing looks at them afterwards.
            if operation == "view" and not exact:
                continue
            exact = exact and (operation != "cast" or tensor.dtype == params["dtype"])
            own = operation in ("view", "cast", "reshape")  # they have such a parameter themselves
            steps = {} if own or rng.integers(3) else random_after(rng, made)
            tensor = plain.after(made, **steps)
            exact = is_exact(steps, exact)
            before = f"via_{i}_{len(chain) - 1}" if chain else f"target.a{i}"
            chain.append({operation: before, **params, **steps})
        via.update({f"via_{i}_{step}": one for step, one in enumerate(chain[:-1])})
        cases.append(Case(chain[-1], tensor, exact))
    assert plain.check(tmp_path / "g", sources, cases, via) > 70


def test_tensors_of_nodes_and_edges_are_computed_row_by_row(tmp_path, rng):
    """Features of nodes and edges, of which an example has any number."""
    nodes, count = 40, 100
    edges = rng.integers(0, nodes, (2, count))
    edges = edges[:, numpy.argsort(edges[0], kind="stable")]
    x, w = plain.sample(rng, "int16", (nodes, 4)), plain.sample(rng, "float32", (count, 2))
    millrace.write_graph(tmp_path / "g", edge_index=edges, num_nodes=nodes,
                         node_features={"x": x.array}, edge_features={"w": w.array})
    for place in ("worker", "consumer"):
        definitions = {
            "a": {"take": "node_feature/x", "index": [3, 0], "scale": [2, -1], "dtype": "float64"},
            "b": {"expr": "node_feature.x * 3 - 1"},
            "n": {"one_hot": "via_sign", "depth": 2},
            "via_sign": {"expr": "node_feature.x > 0"} | {"dtype": "uint8"},
            "c": {"cast": "edge_feature/w", "dtype": "int32"},
            "d": {"stack": ["edge_feature/w", "edge_feature/w"], "axis": -1},
        }
        definitions = {name: {**one, "at": place} for name, one in definitions.items()}
        whole = {"millrace": 1, "dataset": "g", "source": {"roots": "all"}, "features": ["x"],
                 "edge_features": ["w"], "batch": {"size": 7, "remainder": "keep"},
                 "closure": {"max_subgraph_size": 6}, "tensors": definitions,
                 "output": ["a", "b", "c", "d", "n"]}
        sources = {"millrace": 1, **{key: whole[key] for key in whole if key not in
                                     ("tensors", "output")}}
        for micro in (1, 3):
            made = plain.batches(millrace.reference(whole, tmp_path / "g", micro=micro))
            read = plain.batches(millrace.reference(sources, tmp_path / "g", micro=micro))
            for batch, source in zip(made, read, strict=True):
                assert list(batch.example_ids) == list(source.example_ids)
                xs = Tensor("int16", source["node_feature/x"].numpy())
                ws = Tensor("float32", source["edge_feature/w"].numpy())
                numpy.testing.assert_array_equal(xs.array, x.array[source["node"].numpy()])
                taken = xs.with_array(numpy.take(xs.array, [3, 0], 1))
                hot = plain.one_hot(Tensor("uint8", (xs.array > 0).astype("uint8")), 2)
                for name, expected, splits in (
                        ("a", plain.after(taken, scale=[2, -1], dtype="float64"), "node_splits"),
                        ("b", Tensor("int64", xs.array.astype("int64") * 3 - 1), "node_splits"),
                        ("n", hot, "node_splits"),
                        ("c", plain.cast(ws, "int32"), "edge_splits"),
                        ("d", Tensor("float32", numpy.stack([ws.array] * 2, -1)), "edge_splits")):
                    plain.compare(batch, name, expected, True, (name, place))
                    assert batch[name].splits == splits
                    assert batch[splits].tolist() == source[splits].tolist()
