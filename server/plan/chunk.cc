// chunk: long examples are cut into several, which orders count in place of examples.

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {
namespace {

/// The most elements of a chunk: the largest value that orders go by.
constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::int64_t StepOf(const Params& params) {
  return params.GetInt(params.is_set("step") ? "step" : "size");
}

}  // namespace

StageType ChunkStage() {
  StageType stage;
  stage.name = "chunk";
  stage.place = StagePlace::kWorker;
  stage.in_build = false;  // columns are those of whole examples
  stage.level = StageLevel::kMix;
  stage.not_with_branches = "chunk";
  stage.help = "cuts long examples into several, which count as examples";
  stage.optional = true;
  stage.parameters = {
      {
          .name = "tensor",
          .types = {ParamType::kText},
          .help = "the ragged tensor of the source that is cut, with '/' written as '.'",
          .required = true,
      },
      {
          .name = "size",
          .types = {ParamType::kInt},
          .help = "elements of a chunk; the last one of an example may have fewer",
          .min = 1,
          .max = kMost,
          .required = true,
      },
      {
          .name = "step",
          .types = {ParamType::kInt},
          .help = "elements from the begin of a chunk to that of the next, at most `size`; null: "
                  "`size`, so that chunks do not overlap",
          .min = 1,
          .max = kMost,
      },
  };
  stage.check = [](const Params& params) -> Status {
    if (StepOf(params) <= params.GetInt("size")) return OkStatus();
    return InvalidArgument(
        fmt::format("step: expected at most chunk.size, {}, so that no element is left out, got {}",
                    params.GetInt("size"), StepOf(params)));
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    ChunkPart& chunk = parts.Edit<ChunkPart>();
    chunk.tensor = params.GetText("tensor");
    chunk.size = static_cast<std::uint64_t>(params.GetInt("size"));
    chunk.step = static_cast<std::uint64_t>(StepOf(params));
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
