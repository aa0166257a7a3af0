// pack: documents are packed into rows of one size, which orders count in place of examples.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "common/parameters/make_parameter.h"
#include "server/plan/pack/pack_options.h"
#include "server/source/order_parts.h"
#include "server/source/plan_parts.h"
#include "server/source/stage.h"

namespace millrace {
namespace {

/// The most elements that are put before a document, and after it.
constexpr std::size_t kMostAdded = 16;

Status CheckAdded(const Params& params) {
  for (const char* key : {"before", "after"}) {
    const std::size_t added = params.GetInts(key).size();
    if (added <= kMostAdded) continue;
    return InvalidArgument(
        fmt::format("{}: expected at most {} elements, got {}", key, kMostAdded, added));
  }
  const std::size_t before = params.GetInts("before").size();
  const std::size_t added = before + params.GetInts("after").size();
  const std::string last = added == before ? "before" : "after";
  if (added > 0 && static_cast<std::int64_t>(added) >= params.GetInt("size")) {
    return InvalidArgument(
        fmt::format("{}: expected fewer elements before and after a document than pack.size, {}, "
                    "got {}",
                    last, params.GetInt("size"), added));
  }
  if (added > 0 && !params.GetTexts("with").empty()) {
    return InvalidArgument(
        fmt::format("with: expected no pack.{} beside it: {} would have fewer elements than {}",
                    last, params.GetTexts("with").front(), params.GetText("tensor")));
  }
  return OkStatus();
}

Status CheckWith(const Params& params) {
  std::vector<std::string> names = params.GetTexts("with");
  names.push_back(params.GetText("tensor"));
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return OkStatus();
  return InvalidArgument(
      fmt::format("with: expected other tensors than pack.tensor, each once, got {}", *twice));
}

PackPart::Above AboveOf(const std::string& word) {
  if (word == "cut") return PackPart::Above::kCut;
  return word == "drop" ? PackPart::Above::kDrop : PackPart::Above::kSplit;
}

}  // namespace

StageType PackStage() {
  StageType stage;
  stage.name = "pack";
  stage.place = StagePlace::kWorker;
  stage.in_build = false;  // columns are those of documents
  stage.of_all_branches = true;
  stage.help = "packs documents into rows of one size, which count as examples";
  stage.optional = true;
  const auto added = [](const char* name, const char* help) {
    return WithDefault(MayBeEmpty(IntsParameter(name, help)), std::vector<std::int64_t>());
  };
  stage.parameters = {
      Required(NonEmptyTextParameter("tensor",
                                     "the ragged tensor that fills rows, with '/' written as '.'")),
      WithDefault(MayBeEmpty(TextsParameter(
                      "with", "ragged tensors with as many elements, which go where those go")),
                  std::vector<std::string>()),
      Required(IntParameter("size", "the most elements of a row", 1,
                            static_cast<std::int64_t>(kMaxPackSize))),
      Required(WordParameter("method",
                             "concat: documents are cut where a row ends; fit: none that fits a "
                             "row is cut",
                             {"concat", "fit"})),
      WordParameter("above", "split",
                    "method fit: what a document above `size` gives: split: several pieces; cut: "
                    "its first `size` elements; drop: nothing",
                    {"split", "cut", "drop"}),
      IntParameter("window", 4096, "method fit: the most documents that are packed together", 1,
                   static_cast<std::int64_t>(kMaxPackWindow)),
      added("before", "elements put before every document"),
      added("after", "elements put after every document"),
      ParameterOf({ParamType::kSeed}, "seed",
                  "another order of documents before they are packed; null: as they lie, so that "
                  "neighbours on disk share rows"),
  };
  stage.reserved = {"exchange", "multiple"};
  stage.unused = [](std::string_view, const Params& params) {
    if (params.GetText("method") == "fit") return std::vector<std::string>();
    return std::vector<std::string>{"above", "window"};
  };
  stage.check = [](const Params& params) -> Status {
    MILLRACE_RETURN_IF_ERROR(CheckWith(params));
    return CheckAdded(params);
  };
  stage.compile = [](const Params& params, PlanParts& parts) {
    PackPart& pack = parts.Edit<PackPart>();
    pack.tensor = params.GetText("tensor");
    pack.with = params.GetTexts("with");
    pack.size = static_cast<std::uint64_t>(params.GetInt("size"));
    pack.fit = params.GetText("method") == "fit";
    pack.above = AboveOf(params.GetText("above"));
    pack.window = static_cast<std::uint64_t>(params.GetInt("window"));
    pack.before = params.GetInts("before");
    pack.after = params.GetInts("after");
    if (params.is_set("seed")) pack.seed = params.GetUnsigned("seed");
    return OkStatus();
  };
  return stage;
}

}  // namespace millrace
