#include "server/plan/make_plan_facts.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/layout.h"
#include "common/transport/convert/drop_reasons.h"
#include "common/transport/convert/expand.h"
#include "common/transport/convert/steps.h"
#include "common/transport/convert/tables.h"
#include "common/transport/convert/tensor_program.h"
#include "common/transport/convert/tensors.h"
#include "server/plan/static_data.h"
#include "server/plan/tensors/tensor_plan.h"
#include "server/plan/text/pipeline.h"

namespace millrace {
namespace {

/// The digests of the datasets of a plan, in the order of the branches, each dataset once.
std::vector<PlanDataset> DatasetsOf(const Source& source) {
  if (source.branches().empty()) return {{.id = {}, .digest = source.data_digest()}};
  std::set<std::string> known;
  std::vector<PlanDataset> datasets;
  for (const SourceBranch& branch : source.branches()) {
    if (!known.insert(branch.dataset).second) continue;
    datasets.push_back({.id = {}, .digest = branch.source->data_digest()});
  }
  return datasets;
}

}  // namespace

PlanFacts MakePlanFacts(const Fingerprint& fingerprint, const Fingerprint& order_fingerprint,
                        const Source& source, const TensorPlan* computed, const StepOptions& steps,
                        const PlannedOrder& order) {
  const StaticOutline statics = OutlineStatic(source);
  PlanFields fields{.fingerprint = fingerprint,
                    .order_fingerprint = order_fingerprint,
                    .datasets = DatasetsOf(source),
                    .code = source.facts().code,
                    .static_digest = statics.digest,
                    .steps = steps,
                    .max_example_bytes = source.facts().max_example_bytes};
  if (computed != nullptr) {
    fields.max_example_bytes = computed->MaxExampleBytes(source.facts().max_example_bytes);
  }
  v1::Spec& spec = fields.spec;
  for (const TensorSpec& tensor : computed == nullptr ? source.tensors() : computed->tensors()) {
    millrace::ToProto(tensor, spec.add_tensors());
  }
  if (computed != nullptr && computed->consumer()) {
    millrace::ToProto(*computed->consumer(), computed->operations(), spec.mutable_program());
  }
  millrace::ToProto(fields.steps, spec.mutable_steps());
  spec.set_examples_per_epoch(order.order->rows());
  millrace::ToProto(source.expand(), spec.mutable_expand());
  AddDropReasons(source.facts().drop_reasons, spec);
  for (const TableSpec& table : statics.tables) {
    millrace::ToProto(table, spec.add_tables());
  }
  for (const SourceTableSpec& table : source.table_specs()) {
    for (v1::TensorSpec& tensor : *spec.mutable_tensors()) {
      const auto& paths = table.tensors;
      if (std::find(paths.begin(), paths.end(), tensor.path()) == paths.end()) continue;
      tensor.set_table(table.table.name);
    }
  }
  spec.set_source(std::string(source.name()));
  spec.set_token_tensor(TokenTensorOf(source.facts(), computed));
  for (std::size_t i = 0; i < order.branches.size(); ++i) {
    const BranchFacts& facts = order.branches[i];
    const SourceBranch& from = source.branches()[i];
    v1::Branch& branch = *spec.add_branches();
    branch.set_name(facts.name);
    branch.set_dataset(from.dataset);
    branch.set_examples(facts.examples);
    branch.set_rows_per_epoch(facts.rows);
    branch.set_weight(facts.weight);
    branch.set_first_example(from.first);
    branch.set_source_examples(from.source->examples());
  }
  spec.set_order_fingerprint(order_fingerprint.ToString());
  return PlanFacts(std::move(fields));
}

Result<PlanFacts> WithPipeline(const PlanFacts& facts, const Pipeline& pipeline) {
  PlanFields fields = facts.fields();
  const std::vector<std::string>& ids = pipeline.datasets();
  if (fields.datasets.size() != ids.size()) {
    return InvalidArgument(fmt::format("a worker's plan has {} datasets: expected {}",
                                       fields.datasets.size(), ids.size()));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) fields.datasets[i].id = ids[i];
  fields.canonical_text = pipeline.canonical_text();
  return PlanFacts(std::move(fields));
}

}  // namespace millrace
