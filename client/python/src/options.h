// Reads options from Python. Each has the right type, or an error names the option.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "client/session_option_table.h"
#include "common/batch/layout/layout.h"

namespace millrace::python {

/// Raises a ConfigError that says what the option expected and what it got.
[[noreturn]] void RaiseUnexpected(std::string_view name, std::string_view expected,
                                  nanobind::handle got);

template <class T>
constexpr const char* ExpectedText() {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return "an integer from 0 to 18446744073709551615";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "True or False";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
  } else {
    static_assert(std::is_same_v<T, std::map<std::string, std::string>>);
    return "a dict of texts";
  }
}

/// The value of an option. Raises ConfigError if it has another type.
template <class T>
T ReadOption(const char* name, nanobind::handle value) {
  T read{};
  if (!nanobind::try_cast(value, read)) RaiseUnexpected(name, ExpectedText<T>(), value);
  return read;
}

/// Takes an option out of a dict of options. Does nothing if the dict lacks it.
template <class T>
void TakeOption(nanobind::dict& options, const char* name, T* to) {
  if (!options.contains(name)) return;
  *to = ReadOption<T>(name, options[name]);
  nanobind::del(options[name]);
}

/// Takes every option that SessionOptionTable() has a row for out of the dict. Raises ConfigError
/// if a value has another type or is out of its bounds.
void TakeSessionOptions(nanobind::dict& options, SessionOptions& session);
DType ReadIndexDType(nanobind::handle value);

/// Raises ConfigError if the dict still has an option: it is unknown.
void RequireNoMore(const nanobind::dict& options);

}  // namespace millrace::python
