#include "client/python/src/batch.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/calls.h"
#include "client/python/src/errors.h"
#include "client/python/src/tensor.h"
#include "common/tensor/tensor_word.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// A Batch object: tensors by path, read like a dict. It keeps alive everything that it shows. It
/// is not registered as a Mapping, because frameworks rebuild a Mapping as a dict of their own.
class PythonBatch {
 public:
  explicit PythonBatch(std::shared_ptr<HeldBatch> held) : held_(std::move(held)) {}
  const std::shared_ptr<HeldBatch>& held() const { return held_; }

 private:
  std::shared_ptr<HeldBatch> held_;
};

const DeliveredTensor& Find(const PythonBatch& batch, std::string_view path) {
  for (const DeliveredTensor& tensor : batch.held()->tensors()) {
    if (tensor.path == path) return tensor;
  }
  std::string paths;
  for (const DeliveredTensor& tensor : batch.held()->tensors()) {
    paths += (paths.empty() ? "" : ", ") + tensor.path;
  }
  throw nb::key_error(fmt::format("{}: the batch has {}", path, paths).c_str());
}

/// The tensor with this path; nullptr if there is none, or if the key is not a text.
const DeliveredTensor* TryFind(const PythonBatch& batch, nb::handle key) {
  std::string path;
  if (!nb::try_cast(key, path)) return nullptr;
  const auto& tensors = batch.held()->tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const DeliveredTensor& t) { return t.path == path; });
  return found != tensors.end() ? &*found : nullptr;
}

nb::object MakeTensor(const PythonBatch& batch, const DeliveredTensor& tensor) {
  return nb::cast(new Tensor(batch.held(), tensor), nb::rv_policy::take_ownership);
}

nb::object TensorAt(const PythonBatch& batch, nb::handle key) {
  const std::string path =
      nb::isinstance<nb::str>(key) ? nb::str(key).c_str() : nb::repr(key).c_str();
  return MakeTensor(batch, Find(batch, path));
}

/// Tensors of one shape that lie equally far apart, as one tensor with one more dimension. Nothing
/// is copied.
nb::object Stack(const PythonBatch& batch, const std::vector<std::string>& paths) {
  if (paths.empty()) Raise(InvalidArgument("stack: expected at least one path"));
  const DeliveredTensor& first = Find(batch, paths[0]);
  std::ptrdiff_t apart = static_cast<std::ptrdiff_t>(first.bytes);
  for (std::size_t i = 1; i < paths.size(); ++i) {
    const DeliveredTensor& tensor = Find(batch, paths[i]);
    const std::ptrdiff_t from_last = tensor.data - Find(batch, paths[i - 1]).data;
    if (i == 1) apart = from_last;
    if (tensor.dtype != first.dtype || tensor.shape != first.shape || from_last != apart) {
      Raise(InvalidArgument(fmt::format(
          "stack: {} does not continue {}: expected one dtype, one shape and one distance",
          paths[i], paths[i - 1])));
    }
  }
  return nb::cast(new Tensor(batch.held(), first, static_cast<Py_ssize_t>(paths.size()), apart),
                  nb::rv_policy::take_ownership);
}

/// Element `i` of a splits tensor.
nb::object SplitAt(const PythonBatch& batch, const std::string& splits, std::size_t i) {
  const nb::object array = MakeTensor(batch, Find(batch, splits)).attr("numpy")();
  return array[i];
}

bool IsMerged(const PythonBatch& batch) { return batch.held()->info().expand.merged; }

/// Whether a tensor's rows belong to the only graph of a merged batch, and so to no single example.
bool IsOfSharedGraph(const PythonBatch& batch, const DeliveredTensor& tensor) {
  if (!IsMerged(batch)) return false;
  return tensor.splits.empty() ? tensor.dimensions[0] == kGraphsDimension
                               : Find(batch, tensor.splits).dimensions[0] == kGraphSplitsDimension;
}

/// The rows of a batch: its examples and, if graphs are padded, graphs of padding.
std::size_t RowsOf(const PythonBatch& batch) {
  std::size_t rows = batch.held()->info().example_ids.size();
  if (IsMerged(batch)) return rows;
  for (const DeliveredTensor& tensor : batch.held()->tensors()) {
    if (tensor.kind == TensorKind::kDense && tensor.splits.empty()) {
      rows = std::max<std::size_t>(rows, tensor.shape[0]);
    }
  }
  return rows;
}

/// The texts of a row: `bytes` are those of all of them, and `lengths` says how many each has, both
/// as arrays. What is no UTF-8 comes as Python's own `surrogateescape`.
nb::list TextsOf(const nb::object& bytes, const nb::object& lengths) {
  const nb::object all = bytes.attr("tobytes")();
  const std::string_view left(PyBytes_AS_STRING(all.ptr()),
                              static_cast<std::size_t>(PyBytes_GET_SIZE(all.ptr())));
  nb::list texts;
  std::size_t at = 0;
  for (const nb::handle one : nb::list(lengths.attr("tolist")())) {
    const std::string_view text = left.substr(at, nb::cast<std::size_t>(one));
    at += text.size();
    texts.append(nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                                "surrogateescape")));
  }
  return texts;
}

/// One example: of each tensor but splits the rows that are the example's, as numpy arrays. Lists
/// of texts are lists.
nb::dict Row(const PythonBatch& batch, std::int64_t row) {
  const std::size_t rows = RowsOf(batch);
  if (row < 0 || static_cast<std::size_t>(row) >= rows) {
    const std::size_t examples = batch.held()->info().example_ids.size();
    const std::string padding =
        rows == examples ? "" : fmt::format(", and {} rows of padding after them", rows - examples);
    throw nb::index_error(
        fmt::format("row {}: the batch has {} examples{}", row, examples, padding).c_str());
  }
  const auto at = static_cast<std::size_t>(row);
  nb::dict example;
  for (const DeliveredTensor& tensor : batch.held()->tensors()) {
    if (tensor.kind == TensorKind::kSplits || IsOfSharedGraph(batch, tensor)) continue;
    nb::object array = MakeTensor(batch, tensor).attr("numpy")();
    if (tensor.splits.empty()) {
      array = array[nb::make_tuple(at, nb::ellipsis())];
    } else {
      array = array[nb::slice(SplitAt(batch, tensor.splits, at),
                              SplitAt(batch, tensor.splits, at + 1), nb::none())];
    }
    if (!tensor.node_splits.empty() && !IsMerged(batch)) {
      array = array - SplitAt(batch, tensor.node_splits, at);
    }
    example[tensor.path.c_str()] = array;
  }
  for (const DeliveredTensor& tensor : batch.held()->tensors()) {
    const std::string lengths = TextLengthsOf(tensor.path);
    if (tensor.splits.empty() || !example.contains(lengths.c_str())) continue;
    const char* const path = tensor.path.c_str();
    example[path] = TextsOf(example[path], example[lengths.c_str()]);
  }
  return example;
}

nb::list Paths(const PythonBatch& batch) {
  nb::list paths;
  for (const DeliveredTensor& tensor : batch.held()->tensors()) paths.append(tensor.path);
  return paths;
}

nb::list ExampleIds(const PythonBatch& batch) {
  nb::list ids;
  for (const ExampleId id : batch.held()->info().example_ids) ids.append(id.value());
  return ids;
}

nb::list Dropped(const PythonBatch& batch) {
  nb::list dropped;
  const DropReasonNames& names = batch.held()->drop_reasons();
  for (const DroppedExample& example : batch.held()->info().dropped) {
    const std::string reason = names.NameOf(example.reason);
    dropped.append(nb::make_tuple(example.id.value(), nb::str(reason.data(), reason.size())));
  }
  return dropped;
}

const PackedBatch& PackedOf(const PythonBatch& batch) {
  if (batch.held()->micro() > 1) {
    Raise(FailedPrecondition(
        fmt::format("one of {} parts of a batch has no packed form of its own: open the session "
                    "with micro=1",
                    batch.held()->micro())));
  }
  if (batch.held()->packed() != nullptr) return *batch.held()->packed();
  Raise(FailedPrecondition(
      "the batch did not keep its packed form: open the session with packed=True"));
}

std::string Describe(const PythonBatch& batch) {
  const BatchPlace& place = batch.held()->place();
  const std::size_t examples = batch.held()->info().example_ids.size();
  return fmt::format("<millrace.Batch epoch {}, step {}, rank {}: {}>", place.position.epoch,
                     place.step, place.rank,
                     IsMerged(batch) ? fmt::format("1 graph of {} examples", examples)
                                     : fmt::format("{} graphs", examples));
}

}  // namespace

HeldBatch::HeldBatch(std::shared_ptr<const void> owner, const std::vector<DeliveredTensor>& tensors,
                     const BatchInfo& info, std::shared_ptr<const PackedBatch> packed,
                     const BatchPlace& place, std::uint32_t micro, DropReasonNames drop_reasons)
    : owner_(std::move(owner)),
      tensors_(tensors),
      info_(info),
      packed_(std::move(packed)),
      place_(place),
      micro_(micro),
      drop_reasons_(std::move(drop_reasons)),
      process_(getpid()) {}

HeldBatch::~HeldBatch() {
  if (getpid() == process_) return;
  new std::shared_ptr<const void>(std::move(owner_));  // never freed: it is the parent's
  new std::shared_ptr<const PackedBatch>(std::move(packed_));
}

void HeldBatch::Lend(const std::string& path) {
  const std::lock_guard lock(mutex_);
  ++lent_[path];
}

void HeldBatch::TakeBack(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = lent_.find(path);
  if (--it->second == 0) lent_.erase(it);
}

std::vector<std::string> HeldBatch::lent() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (const auto& [path, count] : lent_) paths.push_back(path);
  return paths;
}

std::string ReadPath(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::bytes owned = nb::steal<nb::bytes>(bytes);
  return {owned.c_str(), owned.size()};
}

nb::object MakeBatch(std::shared_ptr<HeldBatch> held) {
  return nb::cast(PythonBatch(std::move(held)), nb::rv_policy::move);
}

void BindBatch(nb::module_& module) {
  BindTensor(module);
  nb::class_<PythonBatch>(
      module, "Batch", nb::is_weak_referenceable(),
      "A delivered batch: its tensors by path, read like a dict.\n\n"
      "Drop it, and every tensor taken from it, before you take many more batches: "
      "its memory is used again for a later batch.")
      .def("__getitem__", TensorAt, nb::arg("path").none(),
           nb::sig("def __getitem__(self, path: str, /) -> Tensor"))
      .def(
          "__contains__",
          [](const PythonBatch& batch, nb::handle path) { return TryFind(batch, path) != nullptr; },
          nb::arg("path").none(), nb::sig("def __contains__(self, path: object, /) -> bool"))
      .def(
          "get",
          [](const PythonBatch& batch, nb::handle path, nb::object otherwise) {
            const DeliveredTensor* const tensor = TryFind(batch, path);
            return tensor != nullptr ? MakeTensor(batch, *tensor) : otherwise;
          },
          nb::arg("path").none(), nb::arg("default") = nb::none(),
          nb::sig("def get(self, path: str, default: typing.Any = None) -> typing.Any"),
          "The tensor with this path, or `default`.")
      .def("stack", Stack, nb::arg("paths"),
           nb::sig("def stack(self, paths: collections.abc.Sequence[str]) -> Tensor"),
           "Tensors of one shape as the rows of one, without a copy: "
           "`batch.stack([\"edge_source\", \"edge_target\"])` is PyG's edge_index.")
      .def("row", Row, nb::arg("row"), nb::sig("def row(self, row: int) -> dict[str, typing.Any]"),
           "One example, as a dict of numpy arrays: views of its rows of each tensor, and numbers "
           "of nodes counted from its first node. Lists of texts are lists of str. If graphs are "
           "padded, rows from num_graphs on "
           "are padding. The graph of a merged batch belongs to all examples: there the dict has "
           "only tensors with rows of examples, and nodes have their numbers in that graph.")
      .def(
          "__iter__", [](const PythonBatch& batch) { return nb::iter(Paths(batch)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__len__", [](const PythonBatch& batch) { return batch.held()->tensors().size(); })
      .def("__repr__", Describe)
      .def("keys", Paths, nb::sig("def keys(self) -> list[str]"))
      .def(
          "values",
          [](const PythonBatch& batch) {
            nb::list values;
            for (const DeliveredTensor& t : batch.held()->tensors()) {
              values.append(MakeTensor(batch, t));
            }
            return values;
          },
          nb::sig("def values(self) -> list[Tensor]"))
      .def(
          "items",
          [](const PythonBatch& batch) {
            nb::list items;
            for (const DeliveredTensor& t : batch.held()->tensors()) {
              items.append(nb::make_tuple(t.path, MakeTensor(batch, t)));
            }
            return items;
          },
          nb::sig("def items(self) -> list[tuple[str, Tensor]]"))
      .def_prop_ro("num_examples",
                   [](const PythonBatch& batch) { return batch.held()->info().example_ids.size(); })
      .def_prop_ro("num_graphs",
                   [](const PythonBatch& batch) { return batch.held()->info().graphs(); })
      .def_prop_ro("epoch",
                   [](const PythonBatch& batch) { return batch.held()->place().position.epoch; })
      .def_prop_ro("first_example",
                   [](const PythonBatch& batch) { return batch.held()->info().first_example; })
      .def_prop_ro("step", [](const PythonBatch& batch) { return batch.held()->place().step; })
      .def_prop_ro("ordinal",
                   [](const PythonBatch& batch) { return batch.held()->place().ordinal; })
      .def_prop_ro("rank", [](const PythonBatch& batch) { return batch.held()->place().rank; })
      .def_prop_ro("example_ids", ExampleIds,
                   nb::for_getter(nb::sig("def example_ids(self) -> list[int]")))
      .def_prop_ro("dropped", Dropped,
                   nb::for_getter(nb::sig("def dropped(self) -> list[tuple[int, str]]")))
      .def_prop_ro(
          "fingerprint",
          [](const PythonBatch& batch) { return batch.held()->info().fingerprint.ToString(); })
      .def_prop_ro("digest",
                   [](const PythonBatch& batch) { return PackedOf(batch).payload_hash().ToHex(); })
      .def("packed_bytes",
           [](const PythonBatch& batch) {
             const auto bytes = PackedOf(batch).bytes();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "save",
          [](const PythonBatch& batch, nb::handle path) {
            const PackedBatch& packed = PackedOf(batch);
            const std::string file = ReadPath(path);
            RaiseUnlessOk(WithoutGil([&] { return WriteBatchFile(packed, file); }));
          },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Saves the packed form as a file, which `millrace.load_batch` reads.");
}

}  // namespace millrace::python
