#include "server/pipeline/graph/split_program.h"

#include <utility>

namespace millrace {

Result<SplitProgram> SplitProgram::Compile(const TensorGraph& graph) {
  SplitProgram split;
  MILLRACE_ASSIGN_OR_RETURN(split.waist, FindWaist(graph));
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i].operation == nullptr) split.sources.push_back(i);
  }
  std::vector<ProgramOutput> travels;
  for (const std::size_t tensor : split.waist.tensors) travels.push_back({tensor});
  std::vector<ProgramOutput> outputs;
  for (const TensorOutput& output : graph.outputs()) outputs.push_back({output.node, output.pad});
  split.worker = Program::Compile(graph, split.sources, travels);
  split.consumer = Program::Compile(graph, split.waist.tensors, outputs);
  return split;
}

}  // namespace millrace
