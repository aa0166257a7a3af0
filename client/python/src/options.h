// Options as Python gives them: values of the right type, or an error that names the option.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "client/session_options.h"
#include "common/batch/layout/layout.h"

namespace millrace::python {

/// Raises ConfigError: what was expected of an option, and what it got.
[[noreturn]] void RaiseUnexpected(std::string_view name, std::string_view expected,
                                  nanobind::handle got);

template <class T>
constexpr const char* ExpectedText() {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return "a whole number from 0 to 18446744073709551615";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
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

/// Takes what SessionOptionTable() has a row for. ConfigError for a value of another type or out of
/// its bounds.
void TakeSessionOptions(nanobind::dict& options, SessionOptions& session);
DType ReadIndexDType(nanobind::handle value);

/// Raises ConfigError where an option is left that nobody took.
void RequireNoMore(const nanobind::dict& options);

}  // namespace millrace::python
