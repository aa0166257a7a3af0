// How a kind of dataset makes one up: the numbers and words that it takes, and a request with their
// values.
//
// Values; the function is thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace millrace {

/// A number or a word that can be given: `millrace generate --NAME`.
struct GenerateOption {
  std::string name;
  std::string help;
  std::optional<std::uint64_t> usual;  // if it is not given; none: the help says so
  std::uint64_t min = 0;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  bool flag = false;  // true: takes no value; it is 1 if it is given
  /// If not empty, the option takes one of these words, and its number is the word's place.
  std::vector<std::string> words = {};
};

struct GenerateRequest {
  std::map<std::string, std::uint64_t> numbers;  // those given, by name; they are in range
  /// Called now and then, from any thread, with what was done since the last call, of `total`.
  std::function<void(std::uint64_t nodes, std::uint64_t total)> progress;

  bool Has(const std::string& name) const { return numbers.contains(name); }
  std::uint64_t Get(const std::string& name, std::uint64_t otherwise) const {
    const auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  }
};

/// Makes a folder, calls `write`, which fills it, and removes what was written if that fails.
/// FailedPrecondition if the folder is not empty; errors of disks; those of `write`.
Status GenerateInto(const std::filesystem::path& dir, const std::function<Status()>& write);

}  // namespace millrace
