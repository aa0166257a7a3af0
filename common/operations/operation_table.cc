// The table of operations. A new operation is a file in this folder that defines a function like
// those below, and one line here.

#include "common/operations/operation.h"

namespace millrace {

#define MILLRACE_OPERATIONS(OPERATION) \
  OPERATION(BitsOperation)             \
  OPERATION(SliceOperation)            \
  OPERATION(TakeOperation)             \
  OPERATION(ReshapeOperation)          \
  OPERATION(TransposeOperation)        \
  OPERATION(CastOperation)             \
  OPERATION(ViewOperation)             \
  OPERATION(ExprOperation)             \
  OPERATION(OneHotOperation)           \
  OPERATION(ConcatOperation)           \
  OPERATION(StackOperation)            \
  OPERATION(LengthOperation)           \
  OPERATION(LookupOperation)           \
  OPERATION(PythonOperation)

/// Those of packed rows, which only plans use.
#define MILLRACE_ROW_OPERATIONS(OPERATION) \
  OPERATION(PackPositionOperation)         \
  OPERATION(PackSegmentOperation)          \
  OPERATION(PackLabelOperation)            \
  OPERATION(PackSeqlensOperation)

#define MILLRACE_DECLARE(operation) OperationType operation();
MILLRACE_OPERATIONS(MILLRACE_DECLARE)
MILLRACE_ROW_OPERATIONS(MILLRACE_DECLARE)
#undef MILLRACE_DECLARE

const OperationTable& OperationTable::Default() {
#define MILLRACE_ENTRY(operation) operation(),
  static const OperationTable table({MILLRACE_OPERATIONS(MILLRACE_ENTRY)},
                                    {MILLRACE_ROW_OPERATIONS(MILLRACE_ENTRY)});
#undef MILLRACE_ENTRY
  return table;
}

}  // namespace millrace
