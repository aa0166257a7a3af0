#include "server/plugin/reply/plugin_failure.h"

#include <fmt/format.h>

namespace millrace {
namespace {

/// The length of the character that `text` begins with; 0 if it is not UTF-8 (RFC 3629).
std::size_t CharacterBytes(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool good = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return good && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool good = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return good && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string PlainText(std::string_view bytes) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = CharacterBytes(bytes);
    const auto first = static_cast<unsigned char>(bytes[0]);
    if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f) {
      text += kReplacement;
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string FailureLine(const PluginFailure& failure) {
  if (failure.type.empty()) return failure.message;
  if (failure.message.empty()) return failure.type;
  return failure.type + ": " + failure.message;
}

std::string DescribeFailure(const PluginFailure& failure, std::string_view object,
                            std::uint64_t example) {
  std::string text = fmt::format("{}, example {}: {}", object, example, FailureLine(failure));
  if (!failure.traceback.empty()) text += "\n" + failure.traceback;
  if (!failure.last_output.empty()) text += "\nits last output:\n" + failure.last_output;
  return text;
}

}  // namespace millrace
