#include "client/python/src/options.h"

#include <fmt/core.h>

#include "client/python/src/errors.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// Of a value that an error shows, at most.
constexpr std::size_t kShown = 100;

}  // namespace

void RaiseUnexpected(const char* name, const char* expected, nb::handle got) {
  std::string shown = nb::repr(got).c_str();
  if (shown.size() > kShown)
    shown = fmt::format("something of type {}", nb::type_name(got.type()).c_str());
  Raise(InvalidArgument(fmt::format("{}: expected {}, got {}", name, expected, shown)));
}

DType ReadIndexDType(nb::handle value) {
  std::string name;
  if (nb::try_cast(value, name)) {
    if (name == "int32") return DType::kInt32;
    if (name == "int64") return DType::kInt64;
  }
  RaiseUnexpected("index_dtype", "'int32' or 'int64'", value);
}

DType TakeIndexDType(nb::dict& options) {
  if (!options.contains("index_dtype")) return DType::kInt32;
  const DType dtype = ReadIndexDType(options["index_dtype"]);
  nb::del(options["index_dtype"]);
  return dtype;
}

void RequireNoMore(const nb::dict& options) {
  for (const auto& [name, value] : options) {
    Raise(InvalidArgument(fmt::format("option {} is not known", nb::str(name).c_str())));
  }
}

}  // namespace millrace::python
