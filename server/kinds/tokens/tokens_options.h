// The keys of `source: {tokens: {…}}`.
//
// Value types and pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/dtype.h"
#include "common/base/result.h"
#include "common/parameters/parameter.h"
#include "server/kinds/tokens/marked_documents.h"

namespace millrace {

struct TokensOptions {
  std::optional<DType> dtype;  // of bare files
  std::optional<DocumentMark> mark;
  std::optional<std::uint64_t> vocab;  // tokens are below this
};

/// Reads the value of `tokens`; null is an empty map. InvalidArgument that begins with ".key: ".
Result<TokensOptions> ReadTokensOptions(const ParamValue& value);

}  // namespace millrace
