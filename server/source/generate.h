// How a kind makes up a dataset: a request with the values of its parameters.
//
// Values; the function is thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "common/base/result.h"
#include "common/parameters/params.h"

namespace millrace {

struct GenerateRequest {
  Params params;  // the given ones; they keep their bounds
  /// Called now and then, from any thread, with the nodes done since the last call, of `total`.
  std::function<void(std::uint64_t nodes, std::uint64_t total)> progress;

  bool Has(std::string_view name) const { return params.is_set(name); }
  std::uint64_t Get(std::string_view name, std::uint64_t otherwise) const {
    return Has(name) ? params.GetSeed(name) : otherwise;
  }
};

/// Makes a folder, calls `write`, which fills it, and removes the files if that fails.
/// FailedPrecondition if the folder is not empty; errors of disks and of `write`.
Status GenerateInto(const std::filesystem::path& dir, const std::function<Status()>& write);

}  // namespace millrace
