#include "client/python/src/batch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/calls.h"
#include "client/python/src/device_tensor.h"
#include "client/python/src/errors.h"
#include "common/batch/layout/tensor_table.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

constexpr std::align_val_t kCopyAlignment{kTensorAlignment};

/// One tensor of a batch, or several that lie equally far apart and are the rows of this one.
class Tensor {
 public:
  Tensor(std::shared_ptr<HeldBatch> batch, const DeliveredTensor& tensor)
      : batch_(std::move(batch)),
        tensor_(tensor),
        shape_(tensor.shape.begin(), tensor.shape.end()),
        strides_(shape_.size()) {
    Py_ssize_t stride = DTypeSize(tensor.dtype);
    for (std::size_t d = shape_.size(); d-- > 0;) {
      strides_[d] = stride;
      stride *= shape_[d];
    }
    batch_->Lend(tensor_.path);
  }
  /// `rows` tensors like `first`. Each begins `row_bytes` bytes after the begin of the one before.
  Tensor(std::shared_ptr<HeldBatch> batch, const DeliveredTensor& first, Py_ssize_t rows,
         Py_ssize_t row_bytes)
      : Tensor(std::move(batch), first) {
    contiguous_ = row_bytes == static_cast<Py_ssize_t>(first.bytes);
    shape_.insert(shape_.begin(), rows);
    strides_.insert(strides_.begin(), row_bytes);
  }
  ~Tensor() { batch_->TakeBack(tensor_.path); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const DeliveredTensor& tensor() const { return tensor_; }
  const std::vector<Py_ssize_t>& shape() const { return shape_; }
  const std::vector<Py_ssize_t>& strides() const { return strides_; }
  bool contiguous() const { return contiguous_; }
  Py_ssize_t bytes() const {
    Py_ssize_t bytes = DTypeSize(tensor_.dtype);
    for (const Py_ssize_t extent : shape_) bytes *= extent;
    return bytes;
  }
  // Frameworks may write to the memory: it is the session's own, and nobody else reads it.
  void* data() const { return const_cast<std::byte*>(tensor_.data); }

 private:
  const std::shared_ptr<HeldBatch> batch_;
  const DeliveredTensor& tensor_;  // lives in batch_
  std::vector<Py_ssize_t> shape_;
  std::vector<Py_ssize_t> strides_;  // in bytes
  bool contiguous_ = true;
};

/// The dtype's letter in Python's struct module. Delivered tensors are int32, int64 or uint8.
const char* BufferFormat(DType dtype) {
  return dtype == DType::kInt64 ? "q" : dtype == DType::kInt32 ? "i" : "B";
}

nb::dlpack::dtype DLPackType(DType dtype) {
  const bool bytes = dtype == DType::kUint8;
  return {
      static_cast<std::uint8_t>(bytes ? nb::dlpack::dtype_code::UInt : nb::dlpack::dtype_code::Int),
      static_cast<std::uint8_t>(8 * DTypeSize(dtype)), 1};
}

/// A copy of the tensor in memory of its own, with the rows one after the other.
nb::object CopyOf(const Tensor& tensor) {
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  void* const copy = ::operator new(std::max<std::size_t>(bytes, 1), kCopyAlignment);
  const nb::capsule owner(copy, [](void* p) noexcept { ::operator delete(p, kCopyAlignment); });
  const std::size_t rows = tensor.contiguous() ? 1 : static_cast<std::size_t>(tensor.shape()[0]);
  const std::size_t row_bytes = bytes / std::max<std::size_t>(rows, 1);
  const std::ptrdiff_t apart = tensor.contiguous() ? 0 : tensor.strides()[0];
  for (std::size_t row = 0; row < rows && row_bytes > 0; ++row) {
    std::memcpy(
        static_cast<std::byte*>(copy) + row * row_bytes,
        static_cast<const std::byte*>(tensor.data()) + static_cast<std::ptrdiff_t>(row) * apart,
        row_bytes);
  }
  const std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return nb::cast(nb::ndarray<>(copy, shape.size(), shape.data(), owner, nullptr,
                                DLPackType(tensor.tensor().dtype)));
}

nb::object ToDLPack(nb::handle self, const nb::kwargs& arguments) {
  const Tensor& tensor = nb::cast<const Tensor&>(self);
  if (CopyWanted(tensor.tensor(), arguments)) return CopyOf(tensor);
  NoteStream(tensor.tensor(), arguments);
  std::array<std::size_t, kMaxDimensions + 1> shape{};
  std::array<std::int64_t, kMaxDimensions + 1> strides{};  // in elements
  const std::size_t dimensions = tensor.shape().size();
  for (std::size_t d = 0; d < dimensions; ++d) {
    shape[d] = static_cast<std::size_t>(tensor.shape()[d]);
    strides[d] = tensor.strides()[d] / DTypeSize(tensor.tensor().dtype);
  }
  const nb::ndarray<> array(tensor.data(), dimensions, shape.data(), nb::handle(self),
                            strides.data(), DLPackType(tensor.tensor().dtype),
                            DLPackDevice(tensor.tensor().memory).first,
                            DLPackDevice(tensor.tensor().memory).second);
  return nb::cast(array);
}

nb::dict ArrayInterface(const Tensor& tensor) {
  RequireHostMemory(tensor.tensor());
  nb::list shape;
  nb::list strides;
  for (const Py_ssize_t extent : tensor.shape()) shape.append(extent);
  for (const Py_ssize_t stride : tensor.strides()) strides.append(stride);
  nb::dict interface;
  interface["shape"] = nb::tuple(shape);
  if (!tensor.contiguous()) interface["strides"] = nb::tuple(strides);
  const DType dtype = tensor.tensor().dtype;
  interface["typestr"] = dtype == DType::kInt64 ? "<i8" : dtype == DType::kInt32 ? "<i4" : "|u1";
  interface["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(tensor.data()), false);
  interface["version"] = 3;
  return interface;
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  const Tensor& tensor = *nb::inst_ptr<Tensor>(self);
  std::memset(view, 0, sizeof *view);
  try {
    RequireHostMemory(tensor.tensor());
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
    return -1;
  }
  if (!tensor.contiguous() && (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    PyErr_SetString(PyExc_BufferError, "the rows do not lie one after the other");
    return -1;
  }
  view->buf = tensor.data();
  view->obj = nb::handle(self).inc_ref().ptr();
  view->len = tensor.bytes();
  view->itemsize = DTypeSize(tensor.tensor().dtype);
  view->ndim = static_cast<int>(tensor.shape().size());
  view->format = (flags & PyBUF_FORMAT) != 0
                     ? const_cast<char*>(BufferFormat(tensor.tensor().dtype))
                     : nullptr;
  view->shape = const_cast<Py_ssize_t*>(tensor.shape().data());
  view->strides = const_cast<Py_ssize_t*>(tensor.strides().data());
  return 0;
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

/// A Batch object: tensors by path, read like a dict. It keeps alive everything that it shows. It
/// is not registered as a Mapping, because frameworks rebuild a Mapping as a dict of their own.
class Batch {
 public:
  explicit Batch(std::shared_ptr<HeldBatch> held) : held_(std::move(held)) {}
  const std::shared_ptr<HeldBatch>& held() const { return held_; }

 private:
  std::shared_ptr<HeldBatch> held_;
};

const DeliveredTensor& Find(const Batch& batch, std::string_view path) {
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
const DeliveredTensor* TryFind(const Batch& batch, nb::handle key) {
  std::string path;
  if (!nb::try_cast(key, path)) return nullptr;
  const auto& tensors = batch.held()->tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const DeliveredTensor& t) { return t.path == path; });
  return found != tensors.end() ? &*found : nullptr;
}

nb::object MakeTensor(const Batch& batch, const DeliveredTensor& tensor) {
  return nb::cast(new Tensor(batch.held(), tensor), nb::rv_policy::take_ownership);
}

nb::object TensorAt(const Batch& batch, nb::handle key) {
  const std::string path =
      nb::isinstance<nb::str>(key) ? nb::str(key).c_str() : nb::repr(key).c_str();
  return MakeTensor(batch, Find(batch, path));
}

/// Tensors of one shape that lie equally far apart, as one tensor with one more dimension. Nothing
/// is copied.
nb::object Stack(const Batch& batch, const std::vector<std::string>& paths) {
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

nb::list Paths(const Batch& batch) {
  nb::list paths;
  for (const DeliveredTensor& tensor : batch.held()->tensors()) paths.append(tensor.path);
  return paths;
}

nb::list ExampleIds(const Batch& batch) {
  nb::list ids;
  for (const ExampleId id : batch.held()->info().example_ids) ids.append(id.value());
  return ids;
}

nb::list Dropped(const Batch& batch) {
  nb::list dropped;
  const DropReasonNames& names = batch.held()->drop_reasons();
  for (const DroppedExample& example : batch.held()->info().dropped) {
    const std::string reason = names.NameOf(example.reason);
    dropped.append(nb::make_tuple(example.id.value(), nb::str(reason.data(), reason.size())));
  }
  return dropped;
}

const PackedBatch& PackedOf(const Batch& batch) {
  if (batch.held()->parts() > 1) {
    Raise(FailedPrecondition(
        fmt::format("one of {} parts of a batch has no packed form of its own: open the session "
                    "with micro=1",
                    batch.held()->parts())));
  }
  if (batch.held()->packed() != nullptr) return *batch.held()->packed();
  Raise(FailedPrecondition(
      "the batch did not keep its packed form: open the session with packed=True"));
}

std::string Describe(const Batch& batch) {
  const BatchPlace& place = batch.held()->place();
  return fmt::format("<millrace.Batch epoch {}, step {}, rank {}: {} graphs>", place.position.epoch,
                     place.step, place.rank, batch.held()->info().example_ids.size());
}

std::string DescribeTensor(const Tensor& tensor) {
  std::string shape;
  for (const Py_ssize_t extent : tensor.shape()) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  }
  const TensorMemory& memory = tensor.tensor().memory;
  const bool host = memory.kind == TensorMemory::Kind::kHost;
  return fmt::format("<millrace.Tensor {} [{}] {}{}>", tensor.tensor().path, shape,
                     DTypeName(tensor.tensor().dtype), host ? "" : " " + DeviceText(memory));
}

void BindTensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", nb::type_slots(tensor_slots),
                     "One tensor of a batch, in the memory that it was delivered into.\n\n"
                     "`numpy()`, `torch()`, `numpy.asarray`, `memoryview` and DLPack share that "
                     "memory; it is kept until the last of them is gone.")
      .def_prop_ro("path", [](const Tensor& t) { return t.tensor().path; })
      .def_prop_ro("kind",
                   [](const Tensor& t) { return std::string(TensorKindName(t.tensor().kind)); })
      .def_prop_ro("dtype",
                   [](const Tensor& t) { return std::string(DTypeName(t.tensor().dtype)); })
      .def_prop_ro(
          "shape",
          [](const Tensor& t) {
            nb::list shape;
            for (const Py_ssize_t extent : t.shape()) shape.append(extent);
            return nb::tuple(shape);
          },
          nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")))
      .def_prop_ro("dimensions", [](const Tensor& t) { return t.tensor().dimensions; })
      .def_prop_ro("splits", [](const Tensor& t) { return t.tensor().splits; })
      .def_prop_ro("nbytes", &Tensor::bytes)
      .def_prop_ro("data_ptr",
                   [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data()); })
      .def("__len__", [](const Tensor& t) { return t.shape().empty() ? 0 : t.shape()[0]; })
      .def(
          "__getitem__",
          [](nb::handle self, nb::handle index) {
            const nb::object array = self.attr("numpy")();
            return nb::object(array[index]);  // read before `array` is released
          },
          nb::sig("def __getitem__(self, index: typing.Any, /) -> typing.Any"))
      .def("__repr__", DescribeTensor)
      .def("__dlpack__", ToDLPack)
      .def("__dlpack_device__", [](const Tensor& t) { return DLPackDevice(t.tensor().memory); })
      .def_prop_ro("device", [](const Tensor& t) { return DeviceText(t.tensor().memory); })
      .def_prop_ro("__array_interface__", ArrayInterface)
      .def(
          "numpy",
          [](nb::handle self) {
            RequireHostMemory(nb::cast<const Tensor&>(self).tensor());
            return nb::module_::import_("numpy").attr("asarray")(self);
          },
          nb::sig("def numpy(self) -> typing.Any"), "A numpy array over the same memory.")
      .def(
          "torch",
          [](nb::handle self) { return nb::module_::import_("torch").attr("from_dlpack")(self); },
          nb::sig("def torch(self) -> typing.Any"), "A torch tensor over the same memory.")
      .def(
          "tolist",
          [](nb::handle self) {
            return nb::steal(PyMemoryView_FromObject(self.ptr())).attr("tolist")();
          },
          nb::sig("def tolist(self) -> list[typing.Any]"));
}

}  // namespace

HeldBatch::HeldBatch(std::shared_ptr<const void> owner, const std::vector<DeliveredTensor>& tensors,
                     const BatchInfo& info, std::shared_ptr<const PackedBatch> packed,
                     const BatchPlace& place, std::uint32_t parts, DropReasonNames drop_reasons)
    : owner_(std::move(owner)),
      tensors_(tensors),
      info_(info),
      packed_(std::move(packed)),
      place_(place),
      parts_(parts),
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
  return nb::cast(Batch(std::move(held)), nb::rv_policy::move);
}

void BindBatch(nb::module_& module) {
  BindTensor(module);
  nb::class_<Batch>(module, "Batch", nb::is_weak_referenceable(),
                    "A delivered batch: its tensors by path, read like a dict.\n\n"
                    "Drop it, and every tensor taken from it, before you take many more batches: "
                    "its memory is used again for a later batch.")
      .def("__getitem__", TensorAt, nb::arg("path").none(),
           nb::sig("def __getitem__(self, path: str, /) -> Tensor"))
      .def(
          "__contains__",
          [](const Batch& batch, nb::handle path) { return TryFind(batch, path) != nullptr; },
          nb::arg("path").none(), nb::sig("def __contains__(self, path: object, /) -> bool"))
      .def(
          "get",
          [](const Batch& batch, nb::handle path, nb::object otherwise) {
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
      .def(
          "__iter__", [](const Batch& batch) { return nb::iter(Paths(batch)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def("__len__", [](const Batch& batch) { return batch.held()->tensors().size(); })
      .def("__repr__", Describe)
      .def("keys", Paths, nb::sig("def keys(self) -> list[str]"))
      .def(
          "values",
          [](const Batch& batch) {
            nb::list values;
            for (const DeliveredTensor& t : batch.held()->tensors()) {
              values.append(MakeTensor(batch, t));
            }
            return values;
          },
          nb::sig("def values(self) -> list[Tensor]"))
      .def(
          "items",
          [](const Batch& batch) {
            nb::list items;
            for (const DeliveredTensor& t : batch.held()->tensors()) {
              items.append(nb::make_tuple(t.path, MakeTensor(batch, t)));
            }
            return items;
          },
          nb::sig("def items(self) -> list[tuple[str, Tensor]]"))
      .def_prop_ro("num_graphs",
                   [](const Batch& batch) { return batch.held()->info().example_ids.size(); })
      .def_prop_ro("epoch", [](const Batch& batch) { return batch.held()->place().position.epoch; })
      .def_prop_ro("first_example",
                   [](const Batch& batch) { return batch.held()->info().first_example; })
      .def_prop_ro("step", [](const Batch& batch) { return batch.held()->place().step; })
      .def_prop_ro("ordinal", [](const Batch& batch) { return batch.held()->place().ordinal; })
      .def_prop_ro("rank", [](const Batch& batch) { return batch.held()->place().rank; })
      .def_prop_ro("example_ids", ExampleIds,
                   nb::for_getter(nb::sig("def example_ids(self) -> list[int]")))
      .def_prop_ro("dropped", Dropped,
                   nb::for_getter(nb::sig("def dropped(self) -> list[tuple[int, str]]")))
      .def_prop_ro("fingerprint",
                   [](const Batch& batch) { return batch.held()->info().fingerprint.ToString(); })
      .def_prop_ro("digest",
                   [](const Batch& batch) { return PackedOf(batch).payload_hash().ToHex(); })
      .def("packed_bytes",
           [](const Batch& batch) {
             const auto bytes = PackedOf(batch).bytes();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "save",
          [](const Batch& batch, nb::handle path) {
            const PackedBatch& packed = PackedOf(batch);
            const std::string file = ReadPath(path);
            RaiseUnlessOk(WithoutGil([&] { return WriteBatchFile(packed, file); }));
          },
          nb::arg("path"), nb::sig("def save(self, path: str | os.PathLike[str]) -> None"),
          "Saves the packed form as a file, which `millrace.load_batch` reads.");
}

}  // namespace millrace::python
