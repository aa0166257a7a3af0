#include "client/python/src/record_file.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/calls.h"
#include "client/python/src/errors.h"
#include "client/python/src/feature_shapes.h"
#include "server/kinds/records/format/crc32c.h"
#include "server/kinds/records/format/example_builder.h"
#include "server/kinds/records/format/record_framing.h"
#include "server/kinds/records/format/record_writer.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

template <class T>
using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::byte> BytesOf(const nb::bytes& bytes) {
  return std::as_bytes(std::span(bytes.c_str(), bytes.size()));
}

std::string_view TextOf(nb::handle bytes) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

void AddFeature(std::string_view name, nb::handle value, ExampleBuilder& builder) {
  if (PyBytes_Check(value.ptr())) {
    builder.AddBytes(name, TextOf(value));
    return;
  }
  if (PyList_Check(value.ptr())) {
    std::vector<std::string_view> values;
    for (const nb::handle item : nb::borrow<nb::list>(value)) values.push_back(TextOf(item));
    builder.AddBytes(name, values);
    return;
  }
  if (Values<std::int64_t> ints; nb::try_cast(value, ints, /*convert=*/false)) {
    builder.AddInts(name, {ints.data(), ints.size()});
    return;
  }
  if (Values<float> floats; nb::try_cast(value, floats, /*convert=*/false)) {
    builder.AddFloats(name, {floats.data(), floats.size()});
    return;
  }
  Raise(InvalidArgument(fmt::format(
      "{}: expected bytes, a list of bytes, or an array of int64 or float32 of one dimension",
      name)));
}

nb::bytes EncodeExample(const nb::dict& features) {
  ExampleBuilder builder;
  for (const auto& [name, value] : features) {
    AddFeature(nb::cast<std::string>(name), value, builder);
  }
  const std::span<const std::byte> example = builder.Finish();
  return nb::bytes(example.data(), example.size());
}

/// A TFRecord file that is being written.
class RecordFile {
 public:
  explicit RecordFile(const std::string& path)
      : writer_(ValueOrRaise(RecordWriter::Create(path))) {}

  void Append(const nb::bytes& record) { RaiseUnlessOk(writer_.Append(BytesOf(record))); }
  void Close(bool sync) {
    RaiseUnlessOk(WithoutGil([&] { return writer_.Close(sync); }));
  }

  std::uint64_t records() const { return writer_.records(); }
  std::uint64_t bytes() const { return writer_.bytes(); }

  /// Appends records as they lie in `data` from `at` on, until one is not whole, has a fault or is
  /// no Example, or this file has reached one of its limits. Gives the place behind the last one
  /// appended, and the fault: "" if there is none, "cut off" if more bytes are needed.
  std::tuple<std::uint64_t, std::string> Copy(const nb::bytes& data, std::uint64_t at,
                                              FeatureShapes& shapes, std::uint64_t most_records,
                                              std::uint64_t most_bytes) {
    std::string fault;
    const std::span<const std::byte> all = BytesOf(data);
    RaiseUnlessOk(WithoutGil([&] {
      while (at < all.size() && records() < most_records && bytes() < most_bytes) {
        const FramedRecord record = ReadRecord(all, at);
        if (record.fault != RecordFault::kSound) {
          fault = IsCutOff(record.fault) ? "cut off" : std::string(Describe(record.fault));
          return OkStatus();
        }
        if (!shapes.Note(record.data)) {
          fault = "no tf.train.Example";
          return OkStatus();
        }
        MILLRACE_RETURN_IF_ERROR(writer_.Append(record.data));
        at = record.next;
      }
      return OkStatus();
    }));
    return {at, fault};
  }

 private:
  static bool IsCutOff(RecordFault fault) {
    return fault == RecordFault::kHeaderCutOff || fault == RecordFault::kCutOff;
  }

  RecordWriter writer_;
};

/// Whether a TFRecord file can begin with these bytes.
bool BeginsWithARecord(const nb::bytes& data) {
  const std::span<const std::byte> bytes = BytesOf(data);
  if (bytes.empty()) return false;
  const RecordFault fault = ReadRecord(bytes, 0, /*check_data=*/false).fault;
  return fault == RecordFault::kSound || fault == RecordFault::kCutOff;
}

nb::dict ShapesDict(const FeatureShapes& shapes) {
  nb::dict dict;
  for (const auto& [name, shape] : shapes.by_name()) {
    nb::dict one;
    nb::list kinds;
    for (const FeatureKind kind : shape.kinds) kinds.append(std::string(FeatureKindName(kind)));
    one["kinds"] = kinds;
    one["examples"] = shape.examples;
    one["values"] = nb::make_tuple(shape.values.least, shape.values.most);
    if (shape.has_bytes) one["bytes"] = nb::make_tuple(shape.bytes.least, shape.bytes.most);
    dict[nb::str(name.c_str(), name.size())] = one;
  }
  return dict;
}

}  // namespace

void BindRecordFile(nb::module_& module) {
  module.def("encode_example", &EncodeExample, nb::arg("features"),
             "A tf.train.Example in canonical form. Values are bytes, a list of bytes, or an array "
             "of int64 or float32 of one dimension.");
  module.def(
      "masked_crc32c", [](const nb::bytes& data) { return MaskedCrc32c(BytesOf(data)); },
      nb::arg("data"), "The checksum of a record.");
  module.def("begins_with_a_record", &BeginsWithARecord, nb::arg("data"),
             "Whether a TFRecord file can begin with these bytes, of which 12 are needed.");
  nb::class_<FeatureShapes>(module, "FeatureShapes",
                            "Kinds and numbers of values of the features of many records.")
      .def(nb::init<>())
      .def("features", &ShapesDict, "What was noted, by the names of the features.");
  nb::class_<RecordFile>(module, "RecordFile", "A TFRecord file that is being written.")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def("append", &RecordFile::Append, nb::arg("record"))
      .def("copy", &RecordFile::Copy, nb::arg("data"), nb::arg("at"), nb::arg("shapes"),
           nb::arg("most_records"), nb::arg("most_bytes"),
           "Appends records as they lie in `data` from `at` on. Gives where it stopped, and why: "
           "'' at a limit or the end of data, 'cut off', or what is wrong with the record there.")
      .def("close", &RecordFile::Close, nb::arg("sync"))
      .def_prop_ro("records", &RecordFile::records)
      .def_prop_ro("bytes", &RecordFile::bytes);
}

}  // namespace millrace::python
