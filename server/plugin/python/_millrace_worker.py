"""Constructs the object of a plugin and builds batches with it.

Needs Python 3.8 and numpy 1.22, and nothing of Millrace.
"""

import mmap
import os
import sys

import numpy as np

import _millrace_object as objects
from _millrace_memory import (AT_ONCE, COMPLETE, ROW, SMALL, WINDOW, Memory, Tensor, WrongValue,
                              make_column)

DONE, DROPPED, FAILED = 1, 2, 3  # outcomes of rows
MOST_FAILURE_TEXT = 1 << 20  # bytes; failures beyond this have no traceback


class Inputs:
    """The memory that the daemon writes: ids, keys, and the tensors that a function gets."""

    def __init__(self, file):
        self.pages = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        os.close(file)

    def read(self, dtype, place, count):
        return np.frombuffer(self.pages, dtype, count, place) if count else np.empty(0, dtype)


class Worker:
    """One object of a plugin. It answers one message after another."""

    def __init__(self, plugin, copies):
        self.plugin = plugin
        self.copies = copies  # not empty in a process that the plugin has forked
        self.chance = objects.Chance()
        self.columns = None

    def answer(self, message, files):
        (kind, content), = message.items()
        if kind == "build":
            files = list(files)
            if content["new_input"]:
                self.inputs = Inputs(files.pop(0))
            if content["new_reply"]:
                self.memory = self.memory.replaced_by(files.pop(0))
            return self.build(content)
        if kind == "open":
            return self.open(content, files)
        if kind == "outputs":
            self.tensors = [make_column(one) for one in content]
            return {"outputs": len(self.tensors)}
        if kind == "facts":
            return {"facts": dict(self.facts(), environment=objects.environment())}
        if kind == "column":
            return self.column(**content)
        if kind == "versions":
            return {"versions": [objects.clean(str(self.source.version(i))) for i in content]}
        raise ValueError("unknown message %s" % kind)

    # The object of a pipeline

    def open(self, declared, files):
        """Finds the object, and constructs it if it is a source."""
        self.memory = Memory(files[0])
        self.declared = declared
        self.random = declared["random"]
        self.is_dropped = objects.make_is_dropped(declared["drop"])
        self.source = None
        kind = declared["kind"]
        found = objects.find_object(self.plugin.module, declared["name"], kind)
        if kind == "source":
            objects.check_source('plugin "%s"' % self.plugin.name, found)
            arguments = dict(declared["args"])
            if declared["folder"] is not None:
                arguments["folder"] = declared["folder"]
            self.source = found(**arguments)
            spec = objects.spec_of(self.source)
            return {"opened": {"spec": spec, "length": len(self.source)}}
        self.function = found
        self.inputs_declared = [Tensor(one) for one in declared["inputs"]]
        self.chance_name = "rngs" if declared["per_batch"] else "rng"
        self.takes_chance = objects.takes(found, self.chance_name)
        return {"opened": {"spec": [], "length": 0}}

    def facts(self):
        if self.source is None:
            return {"uses_chance": self.takes_chance}
        return objects.facts_of(self.source)

    def column(self, name, begin, end):
        """Copies a range of a column to the heap."""
        if self.columns is None:
            self.columns = objects.columns_of(self.source)
        values = self.columns[name]
        self.memory.position = 4096
        place = self.memory.append(values[begin:end])
        return {"column": {"place": place, "dtype": values.dtype.name}}

    # Batches

    def build(self, request):
        rows = request["rows"]
        memory = self.memory
        memory.grow(request["heap"])
        memory.position = request["heap"]
        outcomes = memory.bytes[request["outcomes"]:request["outcomes"] + rows]
        for tensor, place in zip(self.tensors, request["places"]):
            tensor.place(memory, place, rows)
        self.request = request
        self.rows = rows
        self.failures = []
        self.text = 0
        if self.declared["per_batch"]:
            self.build_at_once(outcomes)
        else:
            self.build_rows(outcomes, *self.caller(request))
        memory.words[ROW] = rows
        if self.failures:
            sys.stdout.flush()
        return {"built": {"failures": self.failures}}

    def caller(self, request):
        """A function that builds one row, and its argument for each row."""
        arguments = range(self.rows)
        if self.source is None:
            call = self.function_caller()
        elif hasattr(self.source, "example"):
            call = self.example_caller(request)
        else:
            arguments = self.inputs.read(np.uint64, request["ids"], self.rows).tolist()
            call = self.source.__getitem__
            if request["at_once"] and not self.random and hasattr(self.source, "__getitems__"):
                examples = self.examples_at_once(arguments)
                if examples is not None:
                    return examples.__getitem__, range(self.rows)
        if self.random:
            return self.seeding(call, arguments), range(self.rows)
        return call, arguments

    def example_caller(self, request):
        ids = self.inputs.read(np.uint64, request["ids"], self.rows).tolist()
        epochs = self.inputs.read(np.uint64, request["epochs"], self.rows).tolist()
        generator, example = self.row_generator(), self.source.example
        return lambda row: example(ids[row], epochs[row], generator(row))

    def examples_at_once(self, ids):
        """None if the call fails: then each example is built by itself, which shows whose fault it
        is."""
        self.memory.words[AT_ONCE] = 1
        try:
            examples = self.source.__getitems__(ids)
            return examples if len(examples) == len(ids) else None
        except BaseException:
            return None
        finally:
            self.memory.words[AT_ONCE] = 0

    def keys(self):
        return self.inputs.read(np.uint64, self.request["keys"], 2 * self.rows).reshape(-1, 2)

    def row_generator(self):
        keys, generator = self.keys(), self.chance.generator
        return lambda row: generator(0, keys[row])

    def seeds(self):
        """For each row those of random, numpy.random and torch."""
        seeds = self.inputs.read(np.uint64, self.request["seeds"], 6 * self.rows)
        return seeds.reshape(-1, 3, 2)

    def seeding(self, call, arguments):
        seeds, seed = self.seeds(), self.chance.seed_everything

        def seeded(row):
            seed(seeds[row])
            return call(arguments[row])

        return seeded

    def function_caller(self):
        inputs = self.input_rows()
        function, fixed = self.function, self.declared["args"]
        generator = self.row_generator() if self.takes_chance else None

        def call(row):
            arguments = {name: values[row] for name, values in inputs}
            if generator is not None:
                arguments["rng"] = generator(row)
            return self.named(function(**arguments, **fixed))

        return call

    def input_rows(self):
        """The name of each input, and its values by rows."""
        found = []
        for tensor, (values, splits) in zip(self.inputs_declared, self.request["inputs"]):
            if tensor.ragged:
                ends = self.inputs.read(np.int64, splits, self.rows + 1).tolist()
                units = self.inputs.read(tensor.dtype, values, ends[-1] * self.unit(tensor))
                units = units.reshape((-1,) + tensor.inner)
                found.append((tensor.name, [units[a:b] for a, b in zip(ends, ends[1:])]))
            else:
                units = self.inputs.read(tensor.dtype, values, self.rows * self.unit(tensor))
                found.append((tensor.name, units.reshape((self.rows,) + tensor.inner)))
        return found

    @staticmethod
    def unit(tensor):
        return tensor.unit // tensor.dtype.itemsize

    def named(self, result):
        """A function with one result need not name it."""
        if len(self.tensors) == 1:
            name = self.tensors[0].name
            if not (isinstance(result, dict) and name in result):
                return {name: result}
        return result

    def build_rows(self, outcomes, call, arguments):
        for begin in range(0, self.rows, WINDOW):
            end = min(begin + WINDOW, self.rows)
            found, done = self.build_window(begin, end, call, arguments)
            for tensor in self.tensors:
                tensor.flush(slice(begin, end) if len(done) == end - begin else done)
            outcomes[begin:end] = found
            self.memory.words[COMPLETE] = end

    def build_window(self, begin, end, call, arguments):
        """Builds some rows. Returns the outcome of each, and the rows that were built."""
        words, copies = self.memory.words, self.copies
        count, ndarray = len(self.tensors), np.ndarray
        # Most values are arrays of the right type, and small; others take more time (put).
        tensors = [(one.name, one.dtype, getattr(one, "small_shape", None),
                    getattr(one, "small_rank", -1), one.pending.append,
                    getattr(one, "extents", one.pending).append, one.put) for one in self.tensors]
        found, done = bytearray([DONE]) * (end - begin), []
        for row in range(begin, end):
            words[ROW] = row
            try:
                example = call(arguments[row])
            except BaseException as error:
                if copies:
                    os._exit(0)
                found[row - begin] = self.outcome_of(row, error)
                continue
            if copies:
                os._exit(0)
            try:
                if len(example) != count or not isinstance(example, dict):
                    raise self.mismatch(example)
                for name, dtype, shape, rank, add, add_extent, put in tensors:
                    value = example[name]
                    if type(value) is ndarray and value.dtype is dtype:
                        if value.shape == shape:
                            add(value.tobytes())
                            continue
                        if value.ndim == rank and value.nbytes <= SMALL:
                            add(value.tobytes())
                            add_extent(value.size)
                            continue
                    put(row, value)
                done.append(row)
            except BaseException as error:
                for tensor in self.tensors:
                    tensor.forget(len(done))
                found[row - begin] = self.fail(row, self.reason(example, error))
        return found, done

    def reason(self, example, error):
        """Why a result could not be stored."""
        if not isinstance(error, WrongValue):
            if isinstance(example, dict) and set(example) == {one.name for one in self.tensors}:
                return self.plugin.describer.describe(error)
            error = self.mismatch(example)
        return {"message": str(error)}

    def build_at_once(self, outcomes):
        """Calls a function that takes all rows. What fails fails all."""
        self.memory.words[AT_ONCE] = 1
        try:
            arguments = dict(self.input_rows())
            if self.random:
                self.chance.seed_everything(self.seeds()[0])
            if self.takes_chance:
                generator = self.chance.generator
                arguments["rngs"] = [generator(i, key) for i, key in enumerate(self.keys())]
            result = self.named(self.function(**arguments, **self.declared["args"]))
            if self.copies:
                os._exit(0)
            if not isinstance(result, dict) or set(result) != {one.name for one in self.tensors}:
                raise self.mismatch(result)
            for tensor in self.tensors:
                tensor.put_all(result[tensor.name], self.rows)
                tensor.flush(slice(0, self.rows))
        except WrongValue as error:
            outcomes[:] = bytes([self.fail(None, {"message": str(error)})]) * self.rows
        except BaseException as error:
            failure = self.plugin.describer.describe(error)
            outcomes[:] = bytes([self.fail(None, failure)]) * self.rows
        else:
            outcomes[:] = bytes([DONE]) * self.rows
        self.memory.words[COMPLETE] = self.rows

    def mismatch(self, example):
        if not isinstance(example, dict):
            return WrongValue("a %s in place of a dict of tensors" % type(example).__name__)
        names = [one.name for one in self.tensors]
        missing = [repr(name) for name in names if name not in example]
        extra = [repr(name) for name in example if name not in names]
        faults = ["without " + ", ".join(missing)] * bool(missing)
        faults += ["with " + ", ".join(extra) + ", which is not declared"] * bool(extra)
        return WrongValue("a dict " + " and ".join(faults))

    def outcome_of(self, row, error):
        if self.is_dropped(error):
            return DROPPED
        return self.fail(row, self.plugin.describer.describe(error))

    def fail(self, row, failure):
        if self.text > MOST_FAILURE_TEXT:
            failure = {"type": failure.get("type", ""), "message": failure["message"][:200]}
        self.text += sum(map(len, failure.values()))
        self.failures.append(dict(failure, row=row))
        return FAILED
