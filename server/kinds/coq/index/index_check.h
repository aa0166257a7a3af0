// Checks that the records of an index refer only to records that exist, and are in the order that
// docs/formats/coq-index.md requires. Plans rely on this without checking again. Checksums find
// damage done by a disk. This check finds damage that checksums cannot find, and damage in sections
// of large indexes whose checksums have not been compared.
//
// Pure function.
#pragma once

#include "common/base/result.h"
#include "server/kinds/coq/index/dataset_index.h"

namespace millrace {

/// Makes one pass over all records. Takes 8 bytes of memory for each definition of the largest
/// file. DataLoss names the section, the record and the error.
Status CheckRecords(const DatasetIndex& index);

}  // namespace millrace
