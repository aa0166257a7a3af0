// XXH3 (https://github.com/Cyan4973/xxHash): the one hash function for files, batches, indexes and
// plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/base/ids.h"

namespace millrace {

Digest128 Xxh3(std::span<const std::byte> bytes);
Digest128 Xxh3(std::string_view text);
std::uint64_t Xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// XXH3-128 of bytes that come in pieces. Not thread-safe.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  Digest128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
