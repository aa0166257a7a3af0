// The part of a checkpoint that lets training go on where it stopped: the order and the place in
// it. It is the same on every rank after the same step, and works with any world size.
//
// Written as one line without spaces: "v2,<dataset digest>-<pipeline digest>:<epoch>:<example>",
// and one more ",…" for each further source. A reader refuses versions that it does not know.
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

/// The place in the data of one source.
struct CursorEntry {
  Fingerprint order;  // the fingerprint of the same pipeline with an empty `exclude`
  Position position;
  friend bool operator==(const CursorEntry&, const CursorEntry&) = default;
};

struct Cursor {
  static constexpr std::uint32_t kVersion = 2;

  std::vector<CursorEntry> entries;  // in the order of the pipeline's sources; at least one

  friend bool operator==(const Cursor&, const Cursor&) = default;

  std::string ToString() const;

  /// Reads the text that ToString writes. FailedPrecondition for another version. InvalidArgument
  /// for any other text, with the entry and what was expected.
  static Result<Cursor> Parse(std::string_view text);

  /// Reads a cursor of one source. Errors of Parse; InvalidArgument if it has more.
  static Result<CursorEntry> ParseOne(std::string_view text);

  /// The place that a cursor of one source holds in `order`. Errors of ParseOne; FailedPrecondition
  /// if it was made in another order.
  static Result<Position> PlaceIn(const Fingerprint& order, std::string_view text);
};

}  // namespace millrace
