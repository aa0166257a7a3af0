#include "client/python/src/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/device_tensor.h"
#include "common/batch/layout/tensor_table.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

constexpr std::align_val_t kCopyAlignment{kTensorAlignment};

/// The names of a type in Python's interfaces.
struct Names {
  const char* letter;  // in the struct module
  const char* array;   // in numpy's array interface
  nb::dlpack::dtype_code code;
};

/// Neither the struct module nor numpy has bfloat16: there its bits are a uint16.
Names NamesOf(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  switch (dtype) {
    case DType::kUint8:
      return {"B", "|u1", Code::UInt};
    case DType::kUint16:
      return {"H", "<u2", Code::UInt};
    case DType::kUint32:
      return {"I", "<u4", Code::UInt};
    case DType::kUint64:
      return {"Q", "<u8", Code::UInt};
    case DType::kInt8:
      return {"b", "|i1", Code::Int};
    case DType::kInt16:
      return {"h", "<i2", Code::Int};
    case DType::kInt32:
      return {"i", "<i4", Code::Int};
    case DType::kInt64:
      return {"q", "<i8", Code::Int};
    case DType::kBool:
      return {"?", "|b1", Code::Bool};
    case DType::kFloat16:
      return {"e", "<f2", Code::Float};
    case DType::kBFloat16:
      return {"H", "<u2", Code::Bfloat};
    case DType::kFloat32:
      return {"f", "<f4", Code::Float};
    case DType::kFloat64:
      break;
  }
  return {"d", "<f8", Code::Float};
}

nb::dlpack::dtype DLPackType(DType dtype) {
  return {static_cast<std::uint8_t>(NamesOf(dtype).code),
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
  interface["typestr"] = NamesOf(tensor.tensor().dtype).array;
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
                     ? const_cast<char*>(NamesOf(tensor.tensor().dtype).letter)
                     : nullptr;
  view->shape = const_cast<Py_ssize_t*>(tensor.shape().data());
  view->strides = const_cast<Py_ssize_t*>(tensor.strides().data());
  return 0;
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(GetBuffer)}, {0, nullptr}};

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

}  // namespace

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
            // A memoryview of Python before 3.12 cannot read float16.
            if (nb::cast<const Tensor&>(self).tensor().dtype == DType::kFloat16) {
              return nb::object(self.attr("numpy")().attr("tolist")());
            }
            return nb::object(nb::steal(PyMemoryView_FromObject(self.ptr())).attr("tolist")());
          },
          nb::sig("def tolist(self) -> list[typing.Any]"));
}

}  // namespace millrace::python
