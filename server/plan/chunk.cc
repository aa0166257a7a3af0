// chunk: long examples are cut into several, which orders count in place of examples.

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
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
      Required(NonEmptyTextParameter(
          "tensor", "the ragged tensor of the source that is cut, with '/' written as '.'")),
      Required(IntParameter(
          "size", "elements of a chunk; the last one of an example may have fewer", 1, kMost)),
      IntParameter("step",
                   "elements from the begin of a chunk to that of the next, at most `size`; null: "
                   "`size`, so that chunks do not overlap",
                   1, kMost),
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
