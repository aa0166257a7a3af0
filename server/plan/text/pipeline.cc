#include "server/plan/text/pipeline.h"

#include <algorithm>

#include "server/plan/text/pipeline_parser.h"

namespace millrace {
Result<Pipeline> Pipeline::Parse(const PipelineSource& source, const StageTable& table,
                                 const OperationTable& operations) {
  return PipelineParser(source, table, operations).Parse();
}

const StageConfig* Pipeline::Find(std::string_view stage) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(), [&](const StageConfig& config) {
    return config.type->name == stage;
  });
  return found == stages_.end() ? nullptr : &*found;
}

bool IsDatasetId(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

}  // namespace millrace
