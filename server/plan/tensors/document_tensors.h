// Which of a pipeline's tensors are computed from documents, before these are packed into rows, and
// which from rows (`pack`).
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "server/source/tensors_part.h"

namespace millrace {

struct DocumentTensors {
  TensorsPart of_documents;  // definitions alone
  TensorsPart of_rows;
};

/// The definitions that the packed tensors need are computed from documents. All others, and those
/// of the former that others read too, are computed from rows. `packed`: the names of `pack.tensor`
/// and `pack.with`, as expressions write them. InvalidArgument if a definition is called `pack`.
Result<DocumentTensors> PartTensors(const TensorsPart& part,
                                    const std::vector<std::string>& packed);

}  // namespace millrace
