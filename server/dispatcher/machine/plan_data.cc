#include "server/dispatcher/machine/plan_data.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace millrace {
namespace {

std::string NameIds(const std::vector<std::string>& ids) {
  if (ids.size() == 1) return "dataset " + ids.front();
  const std::vector<std::string> but_last(ids.begin(), ids.end() - 1);
  return fmt::format("datasets {} and {}", fmt::join(but_last, ", "), ids.back());
}

}  // namespace

DataState StateOf(const v1::WorkRequest& report, const PlanDataset& dataset) {
  const auto found = report.datasets().find(dataset.id);
  if (found == report.datasets().end()) return DataState::kAbsent;
  const v1::DatasetState& state = found->second;
  if (state.digest() == dataset.digest.ToHex()) return DataState::kSame;
  if (!state.digest().empty()) return DataState::kDiffers;
  return state.error().empty() ? DataState::kIndexing : DataState::kFailed;
}

DataState WorstDataState(const v1::WorkRequest& report, const PlanFacts& plan) {
  DataState worst = DataState::kSame;
  for (const PlanDataset& dataset : plan.datasets()) {
    worst = std::max(worst, StateOf(report, dataset));
  }
  return worst;
}

std::string MissingDataWhy(const Worker& worker, const PlanFacts& plan) {
  const auto& reported = worker.report.datasets();
  std::vector<std::string> absent;
  for (const PlanDataset& dataset : plan.datasets()) {
    if (!reported.contains(dataset.id)) absent.push_back(dataset.id);
  }
  if (!absent.empty()) return fmt::format("its configuration has no {}", NameIds(absent));
  for (const PlanDataset& dataset : plan.datasets()) {
    const v1::DatasetState& state = reported.at(dataset.id);
    if (!state.error().empty()) return fmt::format("dataset {}: {}", dataset.id, state.error());
  }
  for (const PlanDataset& dataset : plan.datasets()) {
    switch (StateOf(worker.report, dataset)) {
      case DataState::kIndexing:
        return fmt::format("indexing dataset {}: {:.0f} %", dataset.id,
                           100 * reported.at(dataset.id).verifying());
      case DataState::kDiffers: {
        const auto found = worker.differences.find(dataset.id);
        return fmt::format("its copy of dataset {} differs{}", dataset.id,
                           found == worker.differences.end() ? "" : ": " + found->second.text);
      }
      default:
        break;
    }
  }
  return {};
}

std::string NameDatasets(const PlanFacts& plan) {
  std::vector<std::string> ids;
  for (const PlanDataset& dataset : plan.datasets()) ids.push_back(dataset.id);
  return NameIds(ids);
}

}  // namespace millrace
