#include "common/base/quoted.h"

#include <cstddef>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::size_t kShownBytes = 80;

}  // namespace

std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    quoted += byte >= 0x20 && byte < 0x7F && c != '\\' ? std::string(1, c)
                                                       : fmt::format("\\x{:02x}", byte);
  }
  return quoted + (text.size() > kShownBytes ? "…'" : "'");
}

}  // namespace millrace
