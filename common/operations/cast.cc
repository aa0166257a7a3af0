// cast: the values as another type. The step `dtype` does it.

#include "common/operations/operation.h"

namespace millrace {

OperationType CastOperation() {
  OperationType operation;
  operation.name = "cast";
  operation.help = "the values converted to dtype";
  operation.required_after = {"dtype"};
  operation.bind = [](const BindContext&) -> Result<BoundOperation> { return BoundOperation(); };
  return operation;
}

}  // namespace millrace
