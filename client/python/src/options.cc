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

nb::dict OptionDict(const SessionOption& option) {
  nb::dict dict;
  dict["name"] = std::string(option.name);
  dict["help"] = std::string(option.help);
  dict["keyword"] = option.keyword;
  dict["default"] =
      std::visit([](const auto& value) { return nb::cast(value); }, option.Get(SessionOptions()));
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
    const nb::str name(option.name.data(), option.name.size());
    if (!options.contains(name)) continue;
    const nb::object given = options[name];
    const Status set = std::visit(
        [&]<class T>(T value) {
          if (!nb::try_cast(given, value)) RaiseUnexpected(option.name, option.Expected(), given);
          return option.Set(value, session);
        },
        option.Get(session));
    RaiseUnlessOk(set);
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
