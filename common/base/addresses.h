// Lists of addresses, as options have them: "a:7700,b:7700".
//
// Free functions; thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The addresses between the commas, without what is empty; never none: the whole text, where it
/// has no other.
inline std::vector<std::string> SplitAddresses(std::string_view text) {
  std::vector<std::string> addresses;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) addresses.emplace_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  if (addresses.empty()) addresses.emplace_back(text);
  return addresses;
}

}  // namespace millrace
