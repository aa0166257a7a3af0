// batch: how many examples a step holds, and how the last, incomplete step is handled.

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "server/source/order.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {
namespace {

constexpr std::int64_t kMaxBuckets = 1024;

/// Whether a key of `bucket` was written.
bool HasBucket(const Params& params) {
  return std::any_of(params.values().begin(), params.values().end(), [&](const auto& param) {
    return param.first.starts_with("bucket.") && param.first != "bucket.together" &&
           param.first != "bucket.above" && params.is_set(param.first);
  });
}

/// InvalidArgument unless exactly one of two keys of `bucket` is set.
Status CheckOneOf(const Params& params, const std::string& first, const std::string& second) {
  const bool both = params.is_set("bucket." + first);
  if (both != params.is_set("bucket." + second)) return OkStatus();
  return InvalidArgument(fmt::format("expected batch.bucket.{} or batch.bucket.{}, got {}", first,
                                     second, both ? "both" : "neither"));
}

Status CheckBucket(const Params& params) {
  if (!params.is_set("bucket.by")) {
    return InvalidArgument("batch.bucket.by is missing; expected a column, or an expression");
  }
  MILLRACE_RETURN_IF_ERROR(CheckOneOf(params, "bounds", "count"));
  MILLRACE_RETURN_IF_ERROR(CheckOneOf(params, "budget", "size"));
  if (!params.is_set("bucket.bounds")) return OkStatus();
  const std::vector<std::int64_t> bounds = params.GetInts("bucket.bounds");
  if (bounds.size() > static_cast<std::size_t>(kMaxBuckets)) {
    return InvalidArgument(fmt::format("bucket.bounds: expected at most {} bounds, got {}",
                                       kMaxBuckets, bounds.size()));
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i - 1] < bounds[i]) continue;
    return InvalidArgument(fmt::format("bucket.bounds: expected ascending bounds, got {} before {}",
                                       bounds[i - 1], bounds[i]));
  }
  return OkStatus();
}

Status CheckBatch(const Params& params) {
  const bool bucket = HasBucket(params);
  const std::string_view cut = bucket ? "batch.bucket" : "batch.size";
  if (bucket && params.is_set("size")) {
    return InvalidArgument(
        "size: expected batch.size or batch.bucket, got both; set one of them to null");
  }
  if ((bucket || params.is_set("size")) && params.is_set("global_size")) {
    return InvalidArgument(
        fmt::format("global_size: expected {} or batch.global_size, got both; set one of them to "
                    "null",
                    cut));
  }
  if (bucket) return CheckBucket(params);
  if (params.is_set("size") || params.is_set("global_size")) return OkStatus();
  return InvalidArgument(
      "expected batch.size (examples per rank), batch.global_size (per step) or batch.bucket, got "
      "none");
}

std::uint64_t NumberOr(const Params& params, std::string_view name, std::uint64_t absent) {
  return params.is_set(name) ? static_cast<std::uint64_t>(params.GetInt(name)) : absent;
}

BucketPart BucketOf(const Params& params) {
  BucketPart bucket;
  bucket.by = params.GetText("bucket.by");
  if (params.is_set("bucket.bounds")) {
    const std::vector<std::int64_t> bounds = params.GetInts("bucket.bounds");
    bucket.bounds.assign(bounds.begin(), bounds.end());
  }
  bucket.count = NumberOr(params, "bucket.count", 0);
  bucket.budget = NumberOr(params, "bucket.budget", 0);
  bucket.size = NumberOr(params, "bucket.size", 0);
  bucket.max_size = NumberOr(params, "bucket.max_size", 0);
  bucket.together = NumberOr(params, "bucket.together", 1);
  bucket.drop_above = params.GetText("bucket.above") == "drop";
  return bucket;
}

std::vector<Parameter> BatchParameters() {
  return {
      IntParameter("size", "examples per rank and step", 1, 1 << 20),
      IntParameter("global_size",
                   "examples per step over all ranks; the world size has to divide it", 1, 1 << 30),
      WordParameter("remainder", "drop",
                    "the last, incomplete step of an epoch, and the last batch of a bucket: drop "
                    "it, or keep it, cut evenly",
                    {"drop", "keep"}),
      NonEmptyTextParameter("bucket.by",
                            "batches of examples whose values lie between two bounds: a "
                            "column of the source, or an expression over columns"),
      IntsParameter("bucket.bounds", "the largest value of each bucket, ascending", 0,
                    kMaxOrderValue),
      IntParameter("bucket.count",
                   "this many bounds are chosen, so that padding is least; in place of bounds", 1,
                   kMaxBuckets),
      IntParameter("bucket.budget", "the rows of a batch times the bound of its bucket, at most", 1,
                   kMaxOrderValue),
      IntParameter("bucket.size", "rows of a batch, in place of budget", 1, 1 << 20),
      IntParameter("bucket.max_size", "rows of a batch, at most, where budget would allow more", 1,
                   1 << 20),
      IntParameter("bucket.together", 1,
                   "batches of one bucket that follow one another; with the world size or more, "
                   "the ranks of a step have batches of one bucket",
                   1, 1 << 20),
      WordParameter("bucket.above", "refuse",
                    "examples above the last bound or the budget: refuse the pipeline, or drop "
                    "them from all epochs",
                    {"refuse", "drop"}),
  };
}

}  // namespace

StageType BatchStage() {
  StageType stage;
  stage.name = "batch";
  stage.place = StagePlace::kPlan;
  stage.in_build = false;
  stage.level = StageLevel::kMix;
  stage.not_with_branches = "batch.bucket";
  stage.help = "cuts an epoch's order into steps; size, global_size or bucket has to be given";
  stage.parameters = BatchParameters();
  stage.groups = {"bucket"};
  stage.reserved = {"budget", "short"};
  stage.unused = [](std::string_view, const Params& params) -> std::vector<std::string> {
    if (!HasBucket(params)) return {"bucket.together", "bucket.above"};
    if (params.is_set("bucket.size")) return {"bucket.max_size"};
    return {};
  };
  stage.check = CheckBatch;
  stage.compile = [](const Params& params, PlanParts& parts) {
    BatchPart& batch = parts.Edit<BatchPart>();
    batch.size = NumberOr(params, "size", 0);
    batch.global_size = NumberOr(params, "global_size", 0);
    if (HasBucket(params)) batch.bucket = BucketOf(params);
    batch.keep = params.GetText("remainder") == "keep";
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
