#include "common/tensor/tensor_word.h"

#include <algorithm>

namespace millrace {

bool IsTensorWord(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= kMaxTensorName && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string DottedName(std::string_view name) {
  std::string dotted(name);
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  return dotted;
}

std::string TextLengthsOf(std::string_view name) { return std::string(name) + ".lengths"; }

}  // namespace millrace
