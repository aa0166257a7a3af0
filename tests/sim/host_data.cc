#include "tests/sim/host_data.h"

#include <algorithm>
#include <string_view>

#include <fmt/core.h>

#include "common/base/hash.h"

namespace millrace::sim {
namespace {

std::string ContentsOf(const std::string& dataset, DataVersion version) {
  return version == 0 ? dataset : fmt::format("{}, version {}", dataset, version);
}

/// The value of a line `key=value`; empty if there is none.
std::string ValueOf(const std::string& text, std::string_view key) {
  const std::string line = fmt::format("\n{}=", key);
  const std::size_t at = ("\n" + text).find(line);
  if (at == std::string::npos) return {};
  const std::size_t from = at + line.size() - 1;
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace

std::vector<std::string> DatasetsOf(const v1::PipelineText& pipeline) {
  return test::SplitAt(ValueOf(pipeline.yaml(), "dataset"), ',');
}

std::optional<v1::ColumnSet> ColumnOf(const v1::PipelineText& pipeline) {
  const std::string examples = ValueOf(pipeline.yaml(), "measures");
  if (examples.empty()) return std::nullopt;
  v1::ColumnSet set;
  set.set_dataset(DatasetsOf(pipeline).front());
  set.set_dataset_digest(test::DatasetDigest(ContentsOf(set.dataset(), 0)));
  set.set_operations(std::string(32, '7'));
  set.set_examples(std::stoull(examples));
  set.add_columns("nodes");
  return set;
}

std::string MeasuredOf(const std::string& dataset_digest, const v1::ExampleRun& run) {
  const std::uint64_t of_range = Xxh3(fmt::format("{} {}", dataset_digest, run.first())).low;
  return std::string(run.count(), static_cast<char>(of_range));
}

const DataCopy& HostData::Of(const std::string& dataset) const {
  static const DataCopy none;
  const auto found = copies_.find(dataset);
  return found == copies_.end() ? none : found->second;
}

std::map<std::string, v1::DatasetState> HostData::States() const {
  std::map<std::string, v1::DatasetState> states;
  for (const auto& [id, copy] : copies_) {
    if (!copy.configured) continue;
    v1::DatasetState& state = states[id];
    const auto setup = std::find_if(kDatasets.begin(), kDatasets.end(),
                                    [&id = id](const DatasetSetup& d) { return d.id == id; });
    state.set_kind(setup->kind);
    if (!copy.open) continue;
    state.set_digest(test::DatasetDigest(ContentsOf(id, copy.version)));
    if (copy.damaged.contains(copy.version)) state.set_error("a.bin was cut off");
  }
  return states;
}

std::vector<v1::FileEntry> HostData::Files(const std::string& dataset) const {
  v1::FileEntry file;
  file.set_name("a.bin");
  file.set_size(1);
  file.set_digest(Xxh3(ContentsOf(dataset, Of(dataset).version)).ToBytes());
  return {file};
}

bool HostData::IsOpening(const v1::PipelineText& pipeline) const {
  const std::vector<std::string> datasets = DatasetsOf(pipeline);
  return std::any_of(datasets.begin(), datasets.end(), [this](const std::string& dataset) {
    return Of(dataset).configured && !Of(dataset).open;
  });
}

PlanData HostData::DataOf(const v1::PipelineText& pipeline) const {
  PlanData data;
  std::vector<Digest128> digests;
  for (const std::string& dataset : DatasetsOf(pipeline)) {
    const DataVersion version = Of(dataset).version;
    data.datasets[dataset] = version;
    digests.push_back(Xxh3(ContentsOf(dataset, version)));
  }
  data.digest = test::JointDigest(digests);
  data.excludes = !ValueOf(pipeline.yaml(), "exclude").empty();
  if (ValueOf(pipeline.yaml(), "plugin").empty()) return data;
  data.code = code;
  // Other code builds other bytes.
  if (code != 0) data.digest = Xxh3(fmt::format("{} by code {}", data.digest.ToHex(), code));
  if (const std::string fails = ValueOf(pipeline.yaml(), "fails"); !fails.empty()) {
    data.fails = std::stoull(fails);
  }
  for (const std::string& one : test::SplitAt(ValueOf(pipeline.yaml(), "fails_at"), ',')) {
    if (one.empty()) continue;
    data.fails_at[std::stoull(one)] = std::stoull(one.substr(one.find(':') + 1));
  }
  return data;
}

std::optional<std::uint64_t> PlanData::FailsOf(std::size_t worker,
                                               const ExampleRange& range) const {
  const auto has = [&range](std::uint64_t example) {
    return example >= range.first && example - range.first < range.count;
  };
  if (fails && has(*fails)) return fails;
  const auto at = fails_at.find(worker);
  if (at != fails_at.end() && has(at->second)) return at->second;
  return std::nullopt;
}

Status HostData::CheckIntact(const PlanData& plan) const {
  if (plan.excludes) return OkStatus();
  for (const auto& [dataset, version] : plan.datasets) {
    if (!Of(dataset).damaged.contains(version)) continue;
    return DataLoss(fmt::format("dataset '{}': a.bin was cut off", dataset));
  }
  return OkStatus();
}

Result<std::shared_ptr<const PlanFacts>> HostData::Compile(const v1::PipelineText& pipeline) const {
  const PlanData data = DataOf(pipeline);
  std::map<std::string, std::string> contents;
  for (const auto& [dataset, version] : data.datasets) {
    if (!Of(dataset).configured) {
      return NotFound(fmt::format("dataset '{}' is not known here", dataset));
    }
    contents[dataset] = ContentsOf(dataset, version);
  }
  MILLRACE_RETURN_IF_ERROR(CheckIntact(data));
  if (ValueOf(pipeline.yaml(), "plugin").empty()) return test::CompileFake(pipeline, contents);
  v1::PipelineText with_code = pipeline;
  with_code.mutable_yaml()->append(fmt::format("code={}\n", code));
  return test::CompileFake(with_code, contents);
}

}  // namespace millrace::sim
