#include "server/sampling/closure_parts.h"

namespace millrace {

ClosureKernel ChooseKernel(std::uint64_t nodes, const ClosurePart& closure) {
  if (closure.kernel) return *closure.kernel;
  if (nodes <= kMaxArrayNodes) return ClosureKernel::kArray;
  return closure.options.order == ClosureOrder::kBreadthFirst ? ClosureKernel::kInTurns
                                                              : ClosureKernel::kTable;
}

}  // namespace millrace
