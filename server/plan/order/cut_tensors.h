// Which tensors of a source can be cut into parts, as `chunk` and `pack` do.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/source/source.h"

namespace millrace {

/// Why the elements of a tensor cannot be parted; empty if they can.
std::string WhyNotCut(const Source& source, const TensorSpec& tensor);

/// Advice for a tensor that cannot be cut: "expected one of …".
std::string TensorsToCut(const Source& source);

/// The number of a tensor, splits apart, by its name as expressions write it.
std::optional<std::size_t> FindByDottedName(const Source& source, std::string_view name);

}  // namespace millrace
