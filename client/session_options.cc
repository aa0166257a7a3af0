#include "client/session_options.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "client/session_option_table.h"

namespace millrace {

Status CheckSessionOptions(const SessionOptions& options) {
  SessionOptions same;
  for (const SessionOption& option : SessionOptionTable()) {
    MILLRACE_RETURN_IF_ERROR(option.Set(option.member.Get(options), same));
  }
  if (options.rank >= options.world_size) {
    return InvalidArgument(fmt::format("rank {} of world size {}: expected 0 to {}", options.rank,
                                       options.world_size, options.world_size - 1));
  }
  return OkStatus();
}

Result<std::string> ReadPipelineText(const SessionOptions& options) {
  if (options.pipeline.empty() == options.pipeline_file.empty()) {
    return InvalidArgument("a session needs a pipeline: give either its text or its file");
  }
  if (options.pipeline_file.empty()) return options.pipeline;
  std::ifstream file(options.pipeline_file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return NotFound(fmt::format("pipeline file {} cannot be read", options.pipeline_file));
  }
  return text;
}

}  // namespace millrace
