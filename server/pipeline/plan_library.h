// The datasets of a process and the plans over them: what dispatcher, workers and offline tools
// turn a pipeline's text into batches with. Only here are fingerprints made.
//
// A dataset is opened when it is first needed: its index is found, renewed or built (which may take
// long; others that need the same dataset wait for it, those that need another one do not). A
// dataset that cannot be opened is tried again at the next call. A daemon opens all of them ahead
// (OpenAll), side by side, and meanwhile compiles over those that are open.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/batch/buffer_memory.h"
#include "common/system/mutex.h"
#include "server/dataset/coq/dataset.h"
#include "server/dataset/coq/index/index_builder.h"
#include "server/dataset/dataset_files.h"
#include "server/pipeline/plan.h"
#include "server/pipeline/source_table.h"
#include "server/pipeline/text/pipeline.h"

namespace millrace {

/// Where a dataset lies.
struct DatasetLocation {
  std::filesystem::path dir;
  std::filesystem::path index_file;  // empty: found by the rules of index_store.h
  friend bool operator==(const DatasetLocation&, const DatasetLocation&) = default;
};

struct PlanLibraryOptions {
  std::map<std::string, DatasetLocation> datasets;  // by dataset id
  unsigned index_threads = 0;                       // 0: one for each CPU of the process
  std::filesystem::path cache_dir;                  // empty: the user's
  bool skip_bad = false;                            // indexes leave out bad files
  /// The owner calls OpenAll: until a dataset was tried there, it counts as being opened.
  bool open_ahead = false;
  /// Called from several threads while an index is built.
  std::function<void(const std::string& dataset_id, const IndexProgress&)> progress;
  /// Where batches are built; nullptr: on the heap.
  std::shared_ptr<BufferMemory> batch_memory;
  const SourceTable* sources = nullptr;  // nullptr: the default one
  const StageTable* stages = nullptr;    // nullptr: the default one
};

/// What is known of one dataset.
struct DatasetStatus {
  std::string id;
  std::filesystem::path dir;
  bool open = false;
  bool opening = false;  // being opened now: whoever needs it would have to wait
  double indexing = 0;   // share done, 0 to 1, while its index is being built
  std::string error;     // of the last attempt to open it; also of damaged files, where it is open
  Digest128 digest;      // where open
  std::uint64_t files = 0;
  std::uint64_t nodes = 0;
  std::uint64_t proof_states = 0;
  std::vector<std::string> damaged_files;  // plans have to exclude them
  std::vector<BadFile> left_out;           // of the index; the first kShownLeftOut
  std::uint64_t left_out_files = 0;

  static constexpr std::size_t kShownLeftOut = 100;
};

class PlanLibrary {
 public:
  PlanLibrary(PlanLibraryOptions options, std::shared_ptr<Logger> logger);
  ~PlanLibrary();
  PlanLibrary(const PlanLibrary&) = delete;
  PlanLibrary& operator=(const PlanLibrary&) = delete;

  /// Ends what is being indexed, and whoever waits for another process's indexing, within the file
  /// at hand; no dataset is opened any more. What is open goes on.
  void Stop() { stop_.request_stop(); }
  bool stopped() const { return stop_.stop_requested(); }

  /// Opens the dataset. NotFound for an id that is not configured, with those that are; errors of
  /// opening and of building its index; Unavailable after Stop.
  Result<std::shared_ptr<const Dataset>> Open(const std::string& dataset_id);

  /// Replaces the datasets. One whose place is the same stays as it is; one that moves or goes away
  /// is closed with the last plan over it; a new one is opened when it is first needed, or by
  /// OpenAll.
  void SetDatasets(const std::map<std::string, DatasetLocation>& datasets);

  /// Opens all datasets, each on a thread of its own, so that none waits for another; their indexes
  /// are built one after another. `opened` is called for each, from several threads. Blocks.
  void OpenAll(const std::function<void(const std::string& dataset_id, const Status&)>& opened);

  /// The plan of a pipeline, opening its dataset. Plans that are in use somewhere are shared.
  /// Errors of Pipeline::Parse, Open and Plan::Compile; DataLoss, with the `exclude` line that
  /// would let it go on, where the dataset has damaged files that the pipeline does not exclude.
  Result<std::shared_ptr<const Plan>> Compile(const PipelineSource& source);
  Result<std::shared_ptr<const Plan>> Compile(const Pipeline& pipeline);
  /// The plan of a draft, for tools that change one. `pipeline` and `order_pipeline` stand for it.
  Result<std::shared_ptr<const Plan>> Compile(const PlanDraft& draft, const std::string& dataset_id,
                                              Digest128 pipeline, Digest128 order_pipeline);

  /// Parses with the library's stages.
  Result<Pipeline> Parse(const PipelineSource& source) const;

  /// Looks at the files of all open datasets (Dataset::CheckFiles), and logs what it finds. A file
  /// found damaged counts as one that was damaged when the dataset was opened. True where a dataset
  /// has become worse: plans have to be compiled again to see whether they can still be served.
  /// `stop` ends what takes long.
  bool CheckFiles(const std::stop_token& stop = {});

  /// Files found bad so far, by when: "open" (a dataset was opened) and "served" (changed while it
  /// was).
  std::map<std::string, std::uint64_t> file_failures() const;

  /// Ids of all datasets.
  std::vector<std::string> dataset_ids() const;
  /// NotFound for an id that is not configured. Never waits for an index to be built.
  Result<DatasetStatus> GetStatus(const std::string& dataset_id) const;

 private:
  struct Entry;

  Result<std::shared_ptr<Entry>> Find(const std::string& dataset_id) const;
  std::map<std::string, std::shared_ptr<Entry>> Entries() const;
  std::shared_ptr<Entry> MakeEntry(const std::string& id, const DatasetLocation& location) const;
  Status OpenEntry(Entry& entry);
  void CountFailures(const std::string& kind, std::uint64_t files);

  const PlanLibraryOptions options_;
  const std::shared_ptr<Logger> logger_;
  std::stop_source stop_;
  std::mutex one_build_;  // see IndexOptions
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ MILLRACE_GUARDED_BY(mutex_);
  // Replaced ones: plans may go on with them, so that their files are looked at.
  std::vector<std::shared_ptr<Entry>> retired_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> file_failures_ MILLRACE_GUARDED_BY(mutex_){{"open", 0},
                                                                                  {"served", 0}};
  // By dataset id and fingerprint; those in use.
  std::map<std::string, std::weak_ptr<const Plan>> plans_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace
