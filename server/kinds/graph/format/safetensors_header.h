// Headers of safetensors files (https://github.com/huggingface/safetensors).
//
// Pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "common/base/result.h"
#include "server/kinds/graph/format/npy_header.h"

namespace millrace {

/// The tensors of a safetensors file, by name. `file` is the whole file, of which only the header
/// is read. DataLoss that says what is wrong, without the file's name: the header is cut off or no
/// JSON; a tensor has a type that no array may have, or lies outside the file, or its bytes are not
/// those of its shape; the tensors do not fill the file.
Result<std::map<std::string, StoredArray>> ReadSafetensorsHeader(std::span<const std::byte> file);

}  // namespace millrace
