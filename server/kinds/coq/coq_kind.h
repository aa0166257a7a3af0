// The kind of Coq datasets: folders of *.bin files with terms, definitions and proofs.
//
// Thread-safe.
#pragma once

#include <memory>

#include "server/source/dataset_kind.h"

namespace millrace {

std::shared_ptr<const DatasetKind> MakeCoqKind();

}  // namespace millrace
