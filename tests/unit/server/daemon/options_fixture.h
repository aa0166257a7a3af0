// Helpers that the tests of the daemon's options share.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "server/catalog/product_kinds.h"
#include "server/daemon/options.h"

namespace millrace::test {

/// A host with 8 CPUs and 1000 MB.
inline HostLimits SomeHost() {
  HostLimits host;
  host.cpus = 8;
  host.memory_bytes = 1'000'000'000;
  host.cpus_from = "affinity";
  host.memory_from = "machine";
  return host;
}

/// The texts of a command line, with a dataset that exists.
inline OptionTexts Given(const std::map<std::string, std::string>& values) {
  OptionTexts texts;
  for (const auto& [name, text] : values) texts.values[name] = {text, ""};
  texts.datasets["data"] = {{std::filesystem::temp_directory_path(), ""}, ""};
  return texts;
}

inline Result<DaemonOptions> Make(const std::map<std::string, std::string>& values,
                                  Role role = Role::kServe) {
  return MakeOptions(role, Given(values), SomeHost(), ProductKinds());
}

template <class T>
std::string ErrorOf(const Result<T>& result) {
  REQUIRE_FALSE(result.ok());
  return result.status().message();
}

}  // namespace millrace::test
