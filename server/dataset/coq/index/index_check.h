// Whether the records of an index refer to records that exist, and lie in the order that
// docs/index-format.md tells: what plans rely on without looking again. Checksums find what a disk
// did to an index; this finds what they cannot, and in large indexes what nobody has compared.
//
// Pure function.
#pragma once

#include "common/base/result.h"
#include "server/dataset/coq/index/dataset_index.h"

namespace millrace {

/// One pass over all records; takes 8 bytes of memory for each definition of the largest file.
/// DataLoss names the section, the record and what is wrong with it.
Status CheckRecords(const DatasetIndex& index);

}  // namespace millrace
