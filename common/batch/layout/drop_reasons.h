// The names of the reasons for which examples are dropped. A batch has only their numbers. The spec
// of a plan has a name for each number, so that a client can name the reasons of any kind of
// dataset, and reasons of newer servers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/batch/layout/layout.h"

namespace millrace {

/// Whether `name` may name a reason: 1 to 64 characters, each one of a-z, 0-9 and _.
bool IsDropReasonName(std::string_view name);

/// Names of drop reasons. Immutable; thread-safe; cheap to copy.
class DropReasonNames {
 public:
  /// Has only the names that this program knows.
  DropReasonNames() = default;
  /// `names` are the names of reasons 1, 2, and so on. If one is empty or is not allowed as a name,
  /// this program's own name for the number is used.
  explicit DropReasonNames(std::vector<std::string> names);

  /// For example "too_large"; "reason 17" for a reason without a name.
  std::string NameOf(DropReason reason) const;
  std::string NameOf(std::uint64_t number) const;
  /// Empty for a reason without a name.
  std::string_view Find(std::uint64_t number) const;

 private:
  std::shared_ptr<const std::vector<std::string>> names_;  // null: only this program's names
};

}  // namespace millrace
