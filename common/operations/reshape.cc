// reshape: other fixed extents for as many values. The step `shape` does it.

#include "common/operations/operation.h"

namespace millrace {

OperationType ReshapeOperation() {
  OperationType operation;
  operation.name = "reshape";
  operation.help = "other fixed extents, given as shape, for as many values";
  operation.required_after = {"shape"};
  operation.bind = [](const BindContext&) -> Result<BoundOperation> { return BoundOperation(); };
  return operation;
}

}  // namespace millrace
