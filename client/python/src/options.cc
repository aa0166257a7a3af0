#include "client/python/src/options.h"

#include <nanobind/stl/vector.h>

#include <fmt/core.h>

#include "client/python/src/errors.h"
#include "client/python/src/reader.h"

namespace nb = nanobind;

namespace millrace::python {
namespace {

/// The longest text of a value, in bytes, that an error shows. It shows the type of longer ones.
constexpr std::size_t kShown = 100;

/// A value as Python has it. REQUIRES: it is one that a session's option can have.
nb::object ToPython(const ParamValue& value) {
  return std::visit(
      []<class T>(const T& of) -> nb::object {
        if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, bool> ||
                      std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string>) {
          return nb::cast(of);
        } else {
          return nb::none();
        }
      },
      value);
}

/// A Python object as a value of the type that `like` has.
ParamValue FromPython(const Parameter& parameter, const ParamValue& like, nb::handle given) {
  if (std::string size; parameter.Takes(ParamType::kBytes) && nb::try_cast(given, size)) {
    if (const auto bytes = ReadText(parameter, size); bytes.ok()) return *bytes;
  }
  return std::visit(
      [&]<class T>(const T&) -> ParamValue {
        if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, bool> ||
                      std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::string>) {
          if (T value{}; nb::try_cast(given, value)) return value;
        }
        const bool is_bool = parameter.Takes(ParamType::kBool);  // which Python writes otherwise
        RaiseUnexpected(parameter.name, is_bool ? "True or False" : Expected(parameter), given);
      },
      like);
}

nb::dict OptionDict(const SessionOption& option) {
  nb::dict dict;
  dict["name"] = option.parameter.name;
  dict["help"] = option.parameter.help;
  dict["keyword"] = option.keyword;
  dict["default"] = ToPython(option.member.Get(SessionOptions()));
  return dict;
}

}  // namespace

void RaiseUnexpected(std::string_view name, std::string_view expected, nb::handle got) {
  std::string shown = nb::repr(got).c_str();
  if (shown.size() > kShown)
    shown = fmt::format("something of type {}", nb::type_name(got.type()).c_str());
  Raise(InvalidArgument(fmt::format("{}: expected {}, got {}", name, expected, shown)));
}

DType ReadIndexDType(nb::handle value) {
  SessionOptions options;
  nb::dict one;
  one["index_dtype"] = value;
  TakeSessionOptions(one, options);
  return options.index_dtype;
}

void TakeSessionOptions(nb::dict& options, SessionOptions& session) {
  for (const SessionOption& option : SessionOptionTable()) {
    const nb::str name(option.parameter.name.c_str());
    if (!options.contains(name)) continue;
    const ParamValue value =
        FromPython(option.parameter, option.member.Get(session), options[name]);
    RaiseUnlessOk(option.Set(value, session));
    nb::del(options[name]);
  }
}

void RequireNoMore(const nb::dict& options) {
  for (const auto& [name, value] : options) {
    Raise(InvalidArgument(fmt::format("option {} is not known", nb::str(name).c_str())));
  }
}

void BindOptions(nb::module_& module) {
  module.def(
      "session_options",
      [] {
        nb::list list;
        for (const SessionOption& option : SessionOptionTable()) list.append(OptionDict(option));
        return list;
      },
      "The options of a session: name, help, default, and whether `connect` takes them as they "
      "are.");
}

}  // namespace millrace::python
