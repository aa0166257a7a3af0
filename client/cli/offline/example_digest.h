// One example as a line of `millrace digest`, in the form of the reference's golden files: XXH64
// over the delivered arrays.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/batch/batch.h"
#include "common/json/json.h"
#include "server/source/source.h"

namespace millrace::cli {

/// XXH64 (seed 0) of a stream of values, as 16 hex digits.
class StreamDigest {
 public:
  StreamDigest();
  ~StreamDigest();
  StreamDigest(const StreamDigest&) = delete;
  StreamDigest& operator=(const StreamDigest&) = delete;

  void AddUint32(std::uint32_t value) { AddBytes(&value, sizeof(value)); }
  void AddInt64(std::int64_t value) { AddBytes(&value, sizeof(value)); }
  /// Adds the length in bytes, then the bytes.
  void AddText(std::string_view text);
  /// Adds the number of values, then the values as int32.
  void AddArray(std::span<const std::int32_t> values);
  std::string Finish() const;

 private:
  void AddBytes(const void* data, std::size_t size);

  void* state_;
};

/// The line of one example. REQUIRES: `batch` holds this example alone, with full contexts,
/// delivered as int32. `full`: the line also has the arrays themselves.
Json ExampleLine(const DeliveredBatch& batch, const ExpandSpec& expand,
                 const ExampleDescription& description, std::string_view kind, std::uint64_t id,
                 std::uint32_t split, bool full);

}  // namespace millrace::cli
