// cache: where a worker keeps what it has built of examples. Batches are the same with and without
// it.

#include "common/parameters/make_parameter.h"
#include "server/plan/cache/cache_part.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {

StageType CacheStage() {
  StageType stage;
  stage.name = "cache";
  stage.place = StagePlace::kWorker;
  stage.in_order = false;
  stage.in_build = false;
  stage.in_digest = false;
  stage.help = "keeps what was built of examples, so that it is built only once";
  stage.optional = true;
  stage.parameters = {
      Required(WordParameter(
          "examples",
          "memory: in the worker's memory (cache_bytes); disk: in its folder (cache_dir) too",
          {"memory", "disk"})),
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    parts.Edit<CachePart>().examples =
        params.GetText("examples") == "disk" ? CacheLevel::kDisk : CacheLevel::kMemory;
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
