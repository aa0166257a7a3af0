// split: labels every example (0 train, 1 validation, …) and takes the examples of some labels.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {
namespace {

SplitMethod MethodOf(const Params& params) {
  const std::string& method = params.GetText("method");
  if (method == "hash") return SplitMethod::kHash;
  if (method == "file_prefix") return SplitMethod::kFilePrefix;
  return SplitMethod::kDisabled;
}

SplitOptions OptionsOf(const Params& params) {
  SplitOptions options;
  options.method = MethodOf(params);
  if (options.method == SplitMethod::kHash) {
    options.proportions = params.GetInts("proportions");
    options.seed = params.GetInt("seed");
  } else if (options.method == SplitMethod::kFilePrefix) {
    options.prefixes = params.GetTextLists("prefixes");
  }
  return options;
}

std::vector<std::string> UnusedBy(SplitMethod method) {
  switch (method) {
    case SplitMethod::kHash:
      return {"prefixes"};
    case SplitMethod::kFilePrefix:
      return {"proportions", "seed"};
    case SplitMethod::kDisabled:
      break;
  }
  return {"proportions", "seed", "prefixes"};
}

std::vector<Parameter> SplitParameters() {
  Parameter take = Unordered(
      ParameterOf({ParamType::kInt, ParamType::kInts}, "take",
                  "the label, or labels, whose examples an epoch has; null: all", 0, 1'000'000));
  take.one_is_list = true;
  return {
      Required(WordParameter("method", "disabled",
                             "hash: at random, by a column of the source; file_prefix: by "
                             "file name; disabled: all 0",
                             {"hash", "file_prefix", "disabled"})),
      IntsParameter("proportions", "method hash: the shares of label 0, 1, …", 1, 1'000'000'000),
      IntParameter("seed", 0, "method hash: another seed, another split"),
      Unordered(ParameterOf(
          {ParamType::kTextLists}, "prefixes",
          "method file_prefix: beginnings of the file names of label 1, 2, …; others are 0")),
      std::move(take),
  };
}

Status CheckSplit(const Params& params) {
  const SplitMethod method = MethodOf(params);
  if (method == SplitMethod::kHash && !params.is_set("proportions")) {
    return InvalidArgument("method: hash needs split.proportions, such as [9, 1]");
  }
  if (method == SplitMethod::kFilePrefix && !params.is_set("prefixes")) {
    return InvalidArgument("method: file_prefix needs split.prefixes, such as [[theories/Init]]");
  }
  if (method == SplitMethod::kHash && params.GetInts("proportions").size() > kMaxSplitLabels) {
    return InvalidArgument(fmt::format("proportions: expected at most {} shares, got {}",
                                       kMaxSplitLabels, params.GetInts("proportions").size()));
  }
  if (method == SplitMethod::kFilePrefix &&
      params.GetTextLists("prefixes").size() >= kMaxSplitLabels) {
    return InvalidArgument(fmt::format("prefixes: expected at most {} lists, got {}",
                                       kMaxSplitLabels - 1,
                                       params.GetTextLists("prefixes").size()));
  }
  if (!params.is_set("take")) return OkStatus();
  std::size_t labels = 1;
  if (method == SplitMethod::kHash) labels = params.GetInts("proportions").size();
  if (method == SplitMethod::kFilePrefix) labels = params.GetTextLists("prefixes").size() + 1;
  for (const std::int64_t label : params.GetInts("take")) {
    if (label < static_cast<std::int64_t>(labels)) continue;
    return InvalidArgument(
        fmt::format("take: there is no label {}; split.method {} gives the labels 0 to {} here",
                    label, params.GetText("method"), labels - 1));
  }
  return OkStatus();
}

}  // namespace

StageType SplitStage() {
  StageType stage;
  stage.name = "split";
  stage.place = StagePlace::kPlan;
  stage.in_build = false;
  stage.help = "labels the examples (0 train, 1 validation, …) and takes those of some labels";
  stage.parameters = SplitParameters();
  stage.unused = [](std::string_view, const Params& params) { return UnusedBy(MethodOf(params)); };
  stage.check = CheckSplit;
  stage.compile = [](const Params& params, PlanParts& parts) {
    SplitPart& split = parts.Edit<SplitPart>();
    split.split = OptionsOf(params);
    if (params.is_set("take")) split.take = params.GetInts("take");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
