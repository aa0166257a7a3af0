// Datasets of tokens: folders of files as trainers of language models have them.
//
// Free function; thread-safe.
#pragma once

#include <memory>

#include "server/source/dataset_kind.h"

namespace millrace {

std::shared_ptr<const DatasetKind> MakeTokensKind();

}  // namespace millrace
