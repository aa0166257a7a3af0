// The datasets of one simulated host, and how pipelines compile over them. It stands for the plan
// library of a daemon and its adapters (server/plan/plan_library.h,
// server/daemon/plan_adapters.h).
//
// Plain data. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/epoch/position.h"
#include "millrace/v1/dispatcher.pb.h"
#include "tests/unit/server/dispatcher/machine/harness.h"

namespace millrace::sim {

/// A dataset of the simulated fleet.
struct DatasetSetup {
  const char* id;
  const char* kind;
  bool excludes;  // whether a pipeline can exclude its bad files
};
inline constexpr std::array<DatasetSetup, 3> kDatasets = {
    {{"stdlib", "coq", true}, {"papers", "graph", false}, {"molecules", "graph", false}}};

/// Which data a host has under a dataset's id. 0 are those that the fleet should have. All others
/// have other digests.
using DataVersion = std::uint32_t;

/// What a host has of one dataset.
struct DataCopy {
  bool configured = false;  // the daemon knows the id
  bool open = true;         // otherwise it is being opened
  DataVersion version = 0;
  std::set<DataVersion> damaged;  // a file of these data is bad

  /// Whether plans of the fleet's data compile here, at least those that exclude bad files.
  bool serves() const { return configured && open && version == 0; }
};

/// What a plan was compiled over.
struct PlanData {
  std::map<std::string, DataVersion> datasets;  // by id
  Digest128 digest;                             // of all these data
  bool excludes = false;                        // the plan excludes the bad files, if there are any
  std::uint32_t code = 0;                       // of its plugin, if it has one
  std::optional<std::uint64_t> fails;           // an example that this code can never build
  std::map<std::size_t, std::uint64_t> fails_at;  // by worker: one that it cannot build there

  /// The example that makes the worker fail to build a batch with these examples, if there is one.
  std::optional<std::uint64_t> FailsOf(std::size_t worker, const ExampleRange& range) const;
};

class HostData {
 public:
  /// Which code of the plugin the host has. 0 is what the fleet should have.
  std::uint32_t code = 0;

  DataCopy& operator[](const std::string& dataset) { return copies_[dataset]; }
  /// The host's copy; one that is not configured if it has none.
  const DataCopy& Of(const std::string& dataset) const;

  /// The states of all configured datasets, as a report has them.
  std::map<std::string, v1::DatasetState> States() const;
  /// The files of a dataset, by which two copies are told apart.
  std::vector<v1::FileEntry> Files(const std::string& dataset) const;

  /// Whether a compilation has to wait until its datasets are open.
  bool IsOpening(const v1::PipelineText& pipeline) const;
  /// NotFound if the host lacks one of the datasets; DataLoss if a file is bad and not excluded.
  /// REQUIRES: none of the datasets is being opened.
  Result<std::shared_ptr<const PlanFacts>> Compile(const v1::PipelineText& pipeline) const;
  /// What Compile compiles over.
  PlanData DataOf(const v1::PipelineText& pipeline) const;
  /// DataLoss if a file that a plan needs is bad.
  Status CheckIntact(const PlanData& plan) const;

 private:
  std::map<std::string, DataCopy> copies_;
};

/// The datasets that a pipeline names.
std::vector<std::string> DatasetsOf(const v1::PipelineText& pipeline);

/// The column that a pipeline reads, of the fleet's data; empty if it reads none.
std::optional<v1::ColumnSet> ColumnOf(const v1::PipelineText& pipeline);
/// The values that data with this digest have of a range of examples.
std::string MeasuredOf(const std::string& dataset_digest, const v1::ExampleRun& run);

}  // namespace millrace::sim
