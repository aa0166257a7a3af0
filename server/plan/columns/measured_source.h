// A source with measured columns besides its own.
//
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/source/measured_values.h"
#include "server/source/source.h"

namespace millrace {

using MeasuredColumns = std::map<std::string, std::shared_ptr<const MeasuredValues>>;

/// `source` with more columns after its own. If a user's code builds the examples, the values are
/// part of the digest, because they order the examples and nothing else decides them. REQUIRES:
/// each column has a value for each example, and a name that the source's columns do not have.
std::shared_ptr<const Source> WithColumns(const std::shared_ptr<const Source>& source,
                                          const MeasuredColumns& columns);

}  // namespace millrace
