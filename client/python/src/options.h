// Options as Python gives them: values of the right type, or an error that names the option.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "common/batch/layout/layout.h"

namespace millrace::python {

/// Raises ConfigError: what was expected of an option, and what it got.
[[noreturn]] void RaiseUnexpected(const char* name, const char* expected, nanobind::handle got);

template <class T>
constexpr const char* ExpectedText() {
  if constexpr (std::is_same_v<T, bool>) {
    return "True or False";
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return "a whole number from 0 to 4294967295";
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return "a whole number from 0 to 18446744073709551615";
  } else if constexpr (std::is_same_v<T, double>) {
    return "a number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return "a list of texts";
  } else {
    static_assert(std::is_same_v<T, std::map<std::string, std::string>>);
    return "a dict of texts";
  }
}

/// The value of an option, or ConfigError.
template <class T>
T ReadOption(const char* name, nanobind::handle value) {
  T read{};
  if (!nanobind::try_cast(value, read)) RaiseUnexpected(name, ExpectedText<T>(), value);
  return read;
}

/// Takes an option out of a dict of them, where it is there.
template <class T>
void TakeOption(nanobind::dict& options, const char* name, T* to) {
  if (!options.contains(name)) return;
  *to = ReadOption<T>(name, options[name]);
  nanobind::del(options[name]);
}

/// Takes index_dtype; int32 where it is not there.
DType TakeIndexDType(nanobind::dict& options);
DType ReadIndexDType(nanobind::handle value);

/// Raises ConfigError where an option is left that nobody took.
void RequireNoMore(const nanobind::dict& options);

}  // namespace millrace::python
