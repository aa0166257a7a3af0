// batch: how many examples a step holds, and how the last, incomplete step is handled.

#include "server/pipeline/graph/plan_parts.h"
#include "server/pipeline/graph/stage.h"
#include "server/pipeline/order/order_parts.h"

namespace millrace {
namespace {

Status CheckBatch(const Params& params) {
  const bool size = params.is_set("size");
  const bool global_size = params.is_set("global_size");
  if (size && global_size) {
    return InvalidArgument(
        "global_size: expected batch.size or batch.global_size, got both; set one of them to null");
  }
  if (!size && !global_size) {
    return InvalidArgument(
        "expected batch.size (examples per rank) or batch.global_size (per step), got neither");
  }
  return OkStatus();
}

}  // namespace

StageType BatchStage() {
  StageType stage;
  stage.name = "batch";
  stage.place = StagePlace::kPlan;
  stage.help = "cuts an epoch's order into steps; size or global_size has to be given";
  stage.parameters = {
      {
          .name = "size",
          .types = {ParamType::kInt},
          .help = "examples per rank and step",
          .min = 1,
          .max = 1 << 20,
      },
      {
          .name = "global_size",
          .types = {ParamType::kInt},
          .help = "examples per step over all ranks; the world size has to divide it",
          .min = 1,
          .max = 1 << 30,
      },
      {
          .name = "remainder",
          .types = {ParamType::kString},
          .default_value = std::string("drop"),
          .help = "the last, incomplete step of an epoch: drop it, or keep it, cut evenly",
          .allowed = {"drop", "keep"},
      },
  };
  stage.reserved = {"budget", "bucket", "short"};
  stage.check = CheckBatch;
  stage.compile = [](const Params& params, PlanParts& parts) {
    BatchPart& batch = parts.Edit<BatchPart>();
    if (params.is_set("size")) batch.size = static_cast<std::uint64_t>(params.GetInt("size"));
    if (params.is_set("global_size")) {
      batch.global_size = static_cast<std::uint64_t>(params.GetInt("global_size"));
    }
    batch.keep = params.GetString("remainder") == "keep";
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
