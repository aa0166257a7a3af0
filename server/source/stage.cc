#include "server/source/stage.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace millrace {
namespace {

/// One stage with the parameters of both.
StageType Joined(StageType stage, StageType added) {
  for (Parameter& parameter : added.parameters) stage.parameters.push_back(std::move(parameter));
  for (std::string& key : added.reserved) stage.reserved.push_back(std::move(key));
  if (added.unused) {
    stage.unused = [one = stage.unused, other = added.unused](std::string_view source,
                                                              const Params& params) {
      std::vector<std::string> unused = one ? one(source, params) : std::vector<std::string>();
      for (std::string& name : other(source, params)) unused.push_back(std::move(name));
      return unused;
    };
  }
  if (added.check) {
    stage.check = [one = stage.check, other = added.check](const Params& params) {
      if (one) MILLRACE_RETURN_IF_ERROR(one(params));
      return other(params);
    };
  }
  if (added.compile) {
    stage.compile = [one = stage.compile, other = added.compile](const Params& params,
                                                                 PlanParts& parts) {
      if (one) MILLRACE_RETURN_IF_ERROR(one(params, parts));
      return other(params, parts);
    };
  }
  return stage;
}

}  // namespace

std::string_view StagePlaceName(StagePlace place) {
  switch (place) {
    case StagePlace::kPlan:
      return "plan";
    case StagePlace::kWorker:
      return "worker";
    case StagePlace::kConsumer:
      return "consumer";
  }
  return "unknown";
}

const StageType* StageTable::Find(std::string_view name) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const StageType& stage) { return stage.name == name; });
  return found == stages_.end() ? nullptr : &*found;
}

StageTable StageTable::With(StageType stage, std::string_view before) const {
  std::vector<StageType> stages = stages_;
  const auto place = std::find_if(stages.begin(), stages.end(),
                                  [&](const StageType& other) { return other.name == before; });
  assert(place != stages.end());
  stages.insert(place, std::move(stage));
  return StageTable(std::move(stages));
}

StageTable StageTable::WithDefault(std::string_view key, const std::string& source,
                                   ParamValue value) const {
  std::vector<StageType> stages = stages_;
  [[maybe_unused]] bool found = false;
  for (StageType& stage : stages) {
    for (Parameter& parameter : stage.parameters) {
      if (stage.name + "." + parameter.name != key) continue;
      parameter.default_of_source[source] = value;
      found = true;
    }
  }
  assert(found);
  return StageTable(std::move(stages));
}

StageTable StageTable::With(AddedStage added) const {
  std::vector<StageType> stages = stages_;
  for (StageType& stage : stages) {
    if (stage.name != added.stage.name) continue;
    stage = Joined(std::move(stage), std::move(added.stage));
    return StageTable(std::move(stages));
  }
  return With(std::move(added.stage), added.before);
}

}  // namespace millrace
