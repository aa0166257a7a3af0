// The datasets of a process and the plans over them. Dispatcher, workers and offline tools use
// this library to turn a pipeline's text into batches. Fingerprints are made only here.
//
// A dataset is opened when it is first needed: its index is found, renewed or built. This may take
// long; callers that need the same dataset wait for it, and callers that need another one do not.
// If a dataset cannot be opened, the next call tries again. A daemon opens all datasets ahead
// (OpenAll), side by side, and meanwhile compiles over the open ones.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/batch/buffer_memory.h"
#include "common/operations/operation.h"
#include "common/system/mutex.h"
#include "server/files/dataset_files.h"
#include "server/plan/cache/built_examples.h"
#include "server/plan/columns/column_provider.h"
#include "server/plan/plan.h"
#include "server/plan/plan_source.h"
#include "server/plan/text/pipeline.h"
#include "server/plugin/plugin_registry.h"
#include "server/source/dataset.h"
#include "server/source/dataset_kind.h"

namespace millrace {

/// The place of a dataset.
struct DatasetLocation {
  std::filesystem::path dir;
  std::filesystem::path index_file;  // empty: at its usual place
  std::string kind;                  // empty: found by looking at the folder
  std::string version = {};          // of a plugin; another version is opened anew
  bool in_memory = false;            // copied into memory, if its kind can be
  friend bool operator==(const DatasetLocation&, const DatasetLocation&) = default;
};

struct PlanLibraryOptions {
  DatasetKinds kinds;                               // of the datasets that can be opened
  std::map<std::string, DatasetLocation> datasets;  // by dataset id
  unsigned index_threads = 0;                       // 0: one for each CPU of the process
  std::filesystem::path cache_dir;                  // empty: the user's
  bool skip_bad = false;                            // indexes leave bad files out
  /// The owner will call OpenAll. Until OpenAll has tried a dataset, it counts as being opened.
  bool open_ahead = false;
  /// Called while an index is built, from several threads.
  std::function<void(const std::string& dataset_id, const IndexProgress&)> progress;
  /// Called while columns are measured, from several threads, but by only one at a time.
  std::function<void(const std::string& dataset_id, std::uint64_t done, std::uint64_t all)>
      measuring;
  /// Memory in which batches are built; nullptr: on the heap.
  std::shared_ptr<BufferMemory> batch_memory;
  /// The cache of built examples, for pipelines with `cache`; nullptr: no cache.
  std::shared_ptr<BuiltExamples> examples;
  std::shared_ptr<const StageTable> stages;          // null: the table of the kinds
                                                     // (MakeStageTable)
  std::shared_ptr<ColumnProvider> columns;           // null: columns are measured in this process
  std::shared_ptr<const OperationTable> operations;  // null: OperationTable::Default
  std::shared_ptr<PluginRegistry> plugins;  // call functions of pipelines; null: no functions
};

/// The state of one dataset.
struct DatasetStatus {
  std::string id;
  std::string kind;  // empty: neither configured nor found yet
  std::filesystem::path dir;
  bool open = false;
  bool opening = false;  // it is being opened now, so a caller that needs it would have to wait
  double indexing = 0;   // share of its index that is built, 0 to 1; 0 if idle
  std::string error;     // of the last attempt to open it; if it is open, about its damaged files
  Digest128 digest;      // only if it is open
  std::uint64_t files = 0;
  std::uint64_t examples = 0;              // see Dataset::examples
  std::vector<std::string> damaged_files;  // a pipeline has to exclude them
  std::vector<BadFile> left_out;           // by the index; only the first kShownLeftOut
  std::uint64_t left_out_files = 0;
  std::uint64_t in_memory_bytes = 0;  // of copies of its files
  double unverified = 0;  // share of its bytes that CheckFiles has still to compare, 0 to 1

  static constexpr std::size_t kShownLeftOut = 100;
};

class PlanLibrary {
 public:
  PlanLibrary(PlanLibraryOptions options, std::shared_ptr<Logger> logger);
  ~PlanLibrary();
  PlanLibrary(const PlanLibrary&) = delete;
  PlanLibrary& operator=(const PlanLibrary&) = delete;

  /// Stops indexing, and every wait for another process's indexing, after the file at hand at the
  /// latest. No dataset is opened after that. Datasets that are open stay open.
  void Stop() { stop_.request_stop(); }
  bool stopped() const { return stop_.stop_requested(); }

  /// Opens the dataset. NotFound with the known ids if this id is not configured; errors of opening
  /// it and of building its index; Unavailable after Stop.
  Result<std::shared_ptr<const Dataset>> Open(const std::string& dataset_id);

  /// Replaces the datasets. A dataset whose place is unchanged stays as it is. A dataset that moves
  /// or goes away is closed together with the last plan over it. A new one is opened when it is
  /// first needed, or by OpenAll.
  void SetDatasets(const std::map<std::string, DatasetLocation>& datasets);

  /// Opens all datasets, each on a thread of its own, so that they do not wait for each other; only
  /// their indexes are built one after another. `opened` is called for each dataset, from several
  /// threads. Blocks until all have been tried.
  void OpenAll(const std::function<void(const std::string& dataset_id, const Status&)>& opened);

  /// Compiles a pipeline to its plan, and opens its dataset. Plans that are still in use somewhere
  /// are shared. Errors of Pipeline::Parse, Open and Plan::Compile. DataLoss if the dataset has
  /// damaged files that the pipeline does not exclude; the message has the `exclude` line that
  /// would help.
  Result<std::shared_ptr<const Plan>> Compile(const PipelineSource& source);
  Result<std::shared_ptr<const Plan>> Compile(const Pipeline& pipeline);
  /// Compiles parts, for tools that change some. `dataset_id` has no meaning for parts with
  /// branches, which name their own. `pipeline` and `order_pipeline` stand for the pipeline in
  /// fingerprints.
  Result<std::shared_ptr<const Plan>> Compile(const PlanParts& parts, const std::string& dataset_id,
                                              Digest128 pipeline, Digest128 order_pipeline);
  /// Compiles a pipeline with measured columns of another provider. The plan is not shared.
  Result<std::shared_ptr<const Plan>> Compile(const Pipeline& pipeline, ColumnProvider& columns);

  /// The plugins that a pipeline names and that are not among the datasets, by their ids as
  /// datasets ("plugin:speech").
  std::vector<std::string> MissingPlugins(const Pipeline& pipeline) const;
  /// The plugins that a pipeline names, as datasets; empty if its parts do not fit together.
  std::vector<std::string> NamedPlugins(const Pipeline& pipeline) const;

  /// The folders that may hold the measured columns of a dataset, the first writable one of which
  /// gets them: beside its index, or in the cache alone if the dataset is not known here.
  std::vector<std::filesystem::path> ColumnFoldersOf(const std::string& dataset_id) const;

  /// The provider of measured columns.
  const std::shared_ptr<ColumnProvider>& columns() const { return columns_; }

  /// Parses a pipeline with the library's stages. The library must outlive the result.
  Result<Pipeline> Parse(const PipelineSource& source) const;

  /// Checks the files of all open datasets (Dataset::CheckFiles), and logs the results. A file
  /// found damaged now is treated like one that was damaged when the dataset was opened. Returns
  /// true if a dataset has become worse: plans must then be compiled again, to see whether they can
  /// still be served. `stop` ends long work.
  bool CheckFiles(const std::stop_token& stop = {});

  /// As in the options.
  const std::shared_ptr<BuiltExamples>& examples() const { return options_.examples; }

  /// How many files were found bad so far while their dataset was opened ("open"), and how many
  /// while it was served ("served").
  std::map<std::string, std::uint64_t> file_failures() const;

  /// The ids of all datasets.
  std::vector<std::string> dataset_ids() const;
  /// The state of a dataset. NotFound if the id is not configured. Never waits for an index to be
  /// built.
  Result<DatasetStatus> GetStatus(const std::string& dataset_id) const;

 private:
  struct Entry;

  Result<std::shared_ptr<Entry>> Find(const std::string& dataset_id) const;
  /// Opens a dataset for a plan. DataLoss as in Compile.
  Result<DrawnDataset> Draw(const std::string& dataset_id, const PlanParts& parts);
  std::map<std::string, std::shared_ptr<Entry>> Entries() const;
  std::shared_ptr<Entry> MakeEntry(const std::string& id, const DatasetLocation& location) const;
  Status OpenEntry(Entry& entry);
  /// Opens the folder of an entry, and finds out its kind.
  OpenedDataset OpenFolder(Entry& entry);
  /// CheckFiles without the reconciliation of examples built meanwhile.
  bool SnapshotFiles(const std::stop_token& stop);
  void CountFailures(const std::string& kind, std::uint64_t files);
  /// `columns`: another provider of measured columns, for a plan that is not shared; null: ours.
  Result<std::shared_ptr<const Plan>> CompileParts(const PlanParts& parts,
                                                   const std::string& dataset_id,
                                                   Digest128 pipeline, Digest128 order_pipeline,
                                                   ColumnProvider* columns);

  const PlanLibraryOptions options_;
  const std::shared_ptr<const StageTable> stages_;
  const std::shared_ptr<Logger> logger_;
  std::stop_source stop_;
  const std::shared_ptr<ColumnProvider> columns_;
  std::mutex one_build_;  // see DatasetOpenOptions
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ MILLRACE_GUARDED_BY(mutex_);
  // Datasets that were replaced. Plans may still use them, so their files are still checked.
  std::vector<std::shared_ptr<Entry>> retired_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> file_failures_ MILLRACE_GUARDED_BY(mutex_){{"open", 0},
                                                                                  {"served", 0}};
  // Keys are dataset id and fingerprint. Only plans in use are found here.
  std::map<std::string, std::weak_ptr<const Plan>> plans_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
