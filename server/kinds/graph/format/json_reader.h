// Reads JSON from files that somebody else wrote.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace millrace {

/// The most keys and values of a text; objects and arrays count twice. Each takes a hundred bytes
/// of memory, so a file of some dozen MiB could take gigabytes otherwise.
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 22;

/// Reads one JSON value. DataLoss if `text` is not JSON (RFC 8259, in UTF-8), if text follows the
/// value, if an object has a key twice, if it has too many values, or if objects and arrays are
/// nested more than `max_depth` deep.
Result<Json> ReadJson(std::string_view text, int max_depth);

/// The next functions read the value of `key`. DataLoss that names the key if the value is of
/// another type or out of range.
Result<std::uint64_t> JsonNumber(const Json& value, std::string_view key, std::uint64_t max);
Result<std::vector<std::uint64_t>> JsonNumbers(const Json& value, std::string_view key,
                                               std::uint64_t max);
Result<std::string_view> JsonString(const Json& value, std::string_view key);

}  // namespace millrace
