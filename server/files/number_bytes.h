// Numbers and texts in the files of columns: little endian, without gaps.
//
// Free functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

inline void PutText(std::vector<std::byte>& out, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void PutNumber(std::vector<std::byte>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out.push_back(std::byte(value >> (8 * i) & 0xff));
}

/// Takes a number off the front. REQUIRES: there are enough bytes.
template <class T>
T TakeNumber(std::span<const std::byte>& in) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(in[i]) << (8 * i)));
  }
  in = in.subspan(sizeof(T));
  return value;
}

/// Takes a text of `size` bytes off the front. REQUIRES: there are `size` bytes.
inline std::string TakeText(std::span<const std::byte>& in, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(in.data()), size);
  in = in.subspan(size);
  return text;
}

}  // namespace millrace
