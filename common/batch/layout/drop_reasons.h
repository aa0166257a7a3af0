// Names of the reasons for which examples are dropped. A batch has their numbers. A plan's spec has
// a name for each, so that a client can name the reasons of newer servers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/batch/layout/layout.h"

namespace millrace {

/// Whether `name` may name a reason: 1 to 64 of a-z, 0-9 and _.
bool IsDropReasonName(std::string_view name);

/// Immutable; thread-safe; cheap to copy.
class DropReasonNames {
 public:
  /// Those that this program knows.
  DropReasonNames() = default;
  /// `names` of the reasons 1, 2, …; for one that is empty, or no name, this program's counts.
  explicit DropReasonNames(std::vector<std::string> names);

  /// "too_large"; "reason 17" for one that has no name.
  std::string NameOf(DropReason reason) const;
  std::string NameOf(std::uint64_t number) const;
  /// Empty for one that has no name.
  std::string_view Find(std::uint64_t number) const;

 private:
  std::shared_ptr<const std::vector<std::string>> names_;  // null: none besides this program's
};

}  // namespace millrace
