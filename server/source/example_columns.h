// The columns `example_id` and `file` of sources whose examples lie in files one after another.
//
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/ids.h"

namespace millrace {

/// Reads the ids of consecutive examples.
inline void ReadExampleIds(ExampleId first, std::span<std::int64_t> ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int64_t>(first.value() + i);
  }
}

/// Reads the numbers of the files that consecutive examples lie in. `file`: that of the first one.
/// `first_of(f)`: the first example of file f; the number of examples if f is the number of files.
template <class FirstOf>
void ReadFileNumbers(ExampleId first, std::uint32_t file, const FirstOf& first_of,
                     std::span<std::int64_t> files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    while (first.value() + i >= first_of(file + 1)) ++file;
    files[i] = file;
  }
}

}  // namespace millrace
