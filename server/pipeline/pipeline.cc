#include "server/pipeline/pipeline.h"

#include <algorithm>

#include "server/pipeline/pipeline_parser.h"

namespace millrace {

Result<Pipeline> Pipeline::Parse(const PipelineSource& source, const StageTable& table) {
  return PipelineParser(source, table).Parse();
}

const StageConfig* Pipeline::Find(std::string_view stage) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(), [&](const StageConfig& config) {
    return config.type->name == stage;
  });
  return found == stages_.end() ? nullptr : &*found;
}

}  // namespace millrace
