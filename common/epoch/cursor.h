// What a checkpoint holds so that training goes on where it stopped: the order that was being read,
// and the place in it. The same on every rank after the same step, and good for any world size.
//
// Written as one line without spaces: "v1,<dataset digest>-<pipeline digest>:<epoch>:<example>",
// one more ",…" for each further source. A reader refuses versions that it does not know.
//
// Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"

namespace millrace {

/// The place in one source.
struct CursorEntry {
  Fingerprint order;  // the fingerprint with `exclude` left empty
  Position position;
  friend bool operator==(const CursorEntry&, const CursorEntry&) = default;
};

struct Cursor {
  static constexpr std::uint32_t kVersion = 1;

  std::vector<CursorEntry> entries;  // in the pipeline's order of sources, at least one

  friend bool operator==(const Cursor&, const Cursor&) = default;

  std::string ToString() const;

  /// Reads what ToString writes. InvalidArgument, with the entry and what was expected, for all
  /// else; FailedPrecondition for another version.
  static Result<Cursor> Parse(std::string_view text);
};

}  // namespace millrace
