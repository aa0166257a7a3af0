// A member of a struct of options, as the value of a parameter.
//
// Immutable values; thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/log.h"
#include "common/parameters/parameter.h"

namespace millrace {

// The value of a member, and back. Numbers beyond int64 become negative, which bounds refuse.
// REQUIRES: the value has the parameter's type and keeps its bounds.
inline ParamValue AsParamValue(bool member) { return member; }
inline ParamValue AsParamValue(double member) { return member; }
inline ParamValue AsParamValue(const std::string& member) { return member; }
inline ParamValue AsParamValue(const std::vector<std::string>& member) { return member; }
ParamValue AsParamValue(DType member);
ParamValue AsParamValue(LogLevel member);
template <std::integral T>
ParamValue AsParamValue(T member) {
  return static_cast<std::int64_t>(member);
}

template <class T>
void FromParamValue(const ParamValue& value, T& member) {
  member = std::get<T>(value);
}
void FromParamValue(const ParamValue& value, DType& member);
void FromParamValue(const ParamValue& value, LogLevel& member);
template <std::integral T>
requires(!std::same_as<T, bool>) void FromParamValue(const ParamValue& value, T& member) {
  member = static_cast<T>(std::get<std::int64_t>(value));
}

template <class Options>
class Member {
 public:
  template <class T>
  Member(T Options::*member)  // NOLINT: a row of a table names the member alone
      : get_([member](const Options& options) { return AsParamValue(options.*member); }),
        set_([member](const ParamValue& value, Options& options) {
          FromParamValue(value, options.*member);
        }) {}

  ParamValue Get(const Options& options) const { return get_(options); }
  void Set(const ParamValue& value, Options& options) const { set_(value, options); }

 private:
  std::function<ParamValue(const Options&)> get_;
  std::function<void(const ParamValue&, Options&)> set_;
};

}  // namespace millrace
