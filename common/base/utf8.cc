#include "common/base/utf8.h"

namespace millrace {

bool IsUtf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = p + text.size();
  const auto follows = [&](int n, unsigned char low, unsigned char high) {
    if (end - p <= n || p[1] < low || p[1] > high) return false;
    for (int i = 2; i <= n; ++i) {
      if ((p[i] & 0xC0) != 0x80) return false;
    }
    p += n + 1;
    return true;
  };
  while (p < end) {
    const unsigned char c = *p;
    if (c < 0x80) {
      ++p;
    } else if (c >= 0xC2 && c <= 0xDF) {
      if (!follows(1, 0x80, 0xBF)) return false;
    } else if (c >= 0xE0 && c <= 0xEF) {
      if (!follows(2, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF)) return false;
    } else if (c >= 0xF0 && c <= 0xF4) {
      if (!follows(3, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF)) return false;
    } else {
      return false;
    }
  }
  return true;
}

void CutUtf8(std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  text.resize(most);
}

}  // namespace millrace
