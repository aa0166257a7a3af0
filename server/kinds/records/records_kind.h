// Folders of TFRecord files as a kind of dataset.
#pragma once

#include <memory>

#include "server/source/dataset_kind.h"

namespace millrace {

std::shared_ptr<const DatasetKind> MakeRecordsKind();

}  // namespace millrace
