// XXH3 of long inputs with the vectors of newer processors (AVX2 on x86), which take half the time.
// The values are the same. Only hash.cc calls this, after a check of the processor.
//
// wide_hash.cc is the only source that is compiled for these processors. It therefore includes
// nothing whose functions other sources have too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::internal {

/// Sets the halves of the XXH3-128 of `size` bytes.
void WideXxh3(const void* bytes, std::size_t size, std::uint64_t* low, std::uint64_t* high);
std::uint64_t WideXxh3_64(const void* bytes, std::size_t size, std::uint64_t seed);
/// `state`: an XXH3_state_t for XXH3-128.
void WideXxh3Update(void* state, const void* bytes, std::size_t size);

}  // namespace millrace::internal
