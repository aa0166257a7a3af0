// What tests of the daemon's options share.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "server/daemon/options.h"

namespace millrace::test {

/// 8 CPUs, 1000 MB.
inline HostLimits SomeHost() {
  HostLimits host;
  host.cpus = 8;
  host.memory_bytes = 1'000'000'000;
  host.cpus_from = "affinity";
  host.memory_from = "machine";
  return host;
}

/// Texts of a command line, with a dataset that is there.
inline OptionTexts Given(const std::map<std::string, std::string>& values) {
  OptionTexts texts;
  for (const auto& [name, text] : values) texts.values[name] = {text, ""};
  texts.datasets["data"] = {{std::filesystem::temp_directory_path(), ""}, ""};
  return texts;
}

inline Result<DaemonOptions> Make(const std::map<std::string, std::string>& values,
                                  Role role = Role::kServe) {
  return MakeOptions(role, Given(values), SomeHost());
}

template <class T>
std::string ErrorOf(const Result<T>& result) {
  REQUIRE_FALSE(result.ok());
  return result.status().message();
}

}  // namespace millrace::test
