// Takes an input apart, and puts a seed together. Reads beyond the end of an input give 0 or an
// empty text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::fuzz {

/// The part of an input that was not read yet. Thread-compatible.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  std::uint64_t Number(std::size_t bytes) {
    const std::string_view taken = Take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = taken.size(); i-- > 0;) {
      value = value << 8 | static_cast<std::uint8_t>(taken[i]);
    }
    return value;
  }
  std::uint8_t Byte() { return static_cast<std::uint8_t>(Number(1)); }
  std::string_view Take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, std::min(bytes, rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  /// Takes the bytes up to the next `end`, which is dropped.
  std::string_view TakeTo(char end) {
    const std::string_view taken = Take(std::min(rest_.find(end), rest_.size()));
    Take(1);
    return taken;
  }

 private:
  std::string_view rest_;
};

/// The number in little endian, as Input::Number reads it.
inline std::string NumberBytes(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

}  // namespace millrace::fuzz
