// Kinds of datasets, and the registry of the kinds that a process knows. A kind says whether a
// folder holds such a dataset, opens it, has its sources, and implements the commands `millrace
// index`, `inspect`, `verify`, `warm` and `generate` do.
//
// A new kind is a room below server/kinds with a DatasetKind, and one line in
// server/catalog/product_kinds.cc. Nothing else has to know it. tests/support/number_kind.cc is a
// whole kind in one file.
//
// Kinds are immutable and thread-safe; the registry is a value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "server/source/dataset.h"
#include "server/source/generate.h"
#include "server/source/progress.h"
#include "server/source/source_table.h"

namespace millrace {

/// How a dataset is opened. Opening finds, renews or builds its index, if the kind has one. A kind
/// without an index may ignore all of these.
struct DatasetOpenOptions {
  std::string id;                    // of the dataset, where it has one
  std::filesystem::path index_file;  // where the index is kept; empty: at its usual place
  std::filesystem::path cache_dir;   // for indexes of folders that cannot be written; empty: the
                                     // user's
  bool skip_bad = false;             // the index leaves bad files out
  bool in_memory = false;            // copy its files into memory; only if can_be_in_memory()
  bool force = false;                // build the index even if it fits
  unsigned threads = 0;              // 0: one for each CPU of the process
  std::stop_token stop;              // ends the building of an index with Cancelled
  std::mutex* one_build = nullptr;   // held while an index is built, if it is given
  std::shared_ptr<Logger> logger;    // logs builds with their reasons; may be null
  /// Called while an index is built, from several threads, but by only one at a time.
  std::function<void(const IndexProgress&)> progress;
};

/// The outcome of opening a dataset.
struct OpenedDataset {
  Status status;  // why the dataset cannot be opened as it is
  /// Null if it cannot be used. If `status` is not ok, only plans that exclude the `damaged` files
  /// can be served, or whose source reads around the damage (Dataset::LeavesToSources).
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::string> damaged;  // names of files that are bad now
  std::uint64_t bad_files = 0;       // found in all: the damaged ones, or the files left out
};

class DatasetKind {
 public:
  virtual ~DatasetKind() = default;

  /// A word of lower-case letters, digits and underscores.
  virtual std::string_view name() const = 0;
  /// The files by which folders of this kind are known, for messages: "a *.bin file at any depth".
  virtual std::string_view looks_for() const = 0;
  /// Whether the folder holds a dataset of this kind, as far as can be seen without reading it.
  virtual bool IsOne(const std::filesystem::path& dir) const = 0;
  /// The sources of its datasets.
  virtual const SourceTable& sources() const = 0;
  /// The stages, and keys of stages, that its sources add to pipelines.
  virtual std::vector<AddedStage> stages() const { return {}; }

  /// Whether its datasets can be copied into memory (DatasetOpenOptions::in_memory).
  virtual bool can_be_in_memory() const { return false; }

  /// May take long, if an index has to be built or files are copied.
  virtual OpenedDataset Open(const std::filesystem::path& dir,
                             const DatasetOpenOptions& options) const = 0;

  // --- Commands: each returns a report for people ---------------------------------------------
  /// `millrace index`. Opens as Open does, and reports the work. Without an index there is none:
  /// the report is that of Inspect.
  virtual Result<std::string> Index(const std::filesystem::path& dir,
                                    const DatasetOpenOptions& options) const;
  /// `millrace inspect DIR`: the content of the dataset. Builds its index if necessary.
  virtual Result<std::string> Inspect(const std::filesystem::path& dir,
                                      const DatasetOpenOptions& options) const = 0;
  /// `millrace verify`: compares every byte with the digests that are known. DataLoss that names
  /// each file that differs. FailedPrecondition if the kind knows no digests of contents.
  virtual Result<std::string> Verify(const std::filesystem::path& dir,
                                     const DatasetOpenOptions& options) const;
  /// `millrace warm`: all files that batches are built from. They are the dataset's Files(), unless
  /// the kind says otherwise.
  virtual Result<DatasetListing> FilesToWarm(const std::filesystem::path& dir) const;
  /// `millrace warm --arrays`: the files of these arrays, each once. InvalidArgument that names the
  /// existing arrays; also if the kind has no arrays.
  virtual Result<DatasetListing> ArraysToWarm(const std::filesystem::path& dir,
                                              const std::vector<std::string>& arrays) const;
  /// `millrace generate`: the numbers that Generate takes; empty: the kind makes up no datasets.
  virtual std::vector<Parameter> generate_parameters() const { return {}; }
  /// Writes a made-up dataset into a folder. Parameters that are not given have their defaults.
  /// Fails, with nothing left behind, if the folder is not
  /// empty.
  virtual Result<std::string> Generate(const std::filesystem::path& dir,
                                       const GenerateRequest& request) const;
};

/// The kinds of datasets that a process knows. Kinds that are recognised by a file of a fixed name
/// come before kinds that accept any file with some suffix.
class DatasetKinds {
 public:
  DatasetKinds() = default;
  explicit DatasetKinds(std::vector<std::shared_ptr<const DatasetKind>> kinds)
      : kinds_(std::move(kinds)) {}

  std::span<const std::shared_ptr<const DatasetKind>> all() const& { return kinds_; }
  std::span<const std::shared_ptr<const DatasetKind>> all() const&& = delete;
  /// Returns these kinds, and `kind` before them.
  DatasetKinds With(std::shared_ptr<const DatasetKind> kind) const;
  /// Returns these kinds, with `kind` in place of the one with the same name.
  DatasetKinds Replacing(std::shared_ptr<const DatasetKind> kind) const;

  /// The kind with this name. InvalidArgument that lists the known ones.
  Result<std::shared_ptr<const DatasetKind>> Named(std::string_view name) const;
  /// The kind of the dataset in a folder: the one named `told`, or, if that is empty, the first one
  /// that recognises the folder. NotFound, PermissionDenied or InvalidArgument for the folder, and
  /// for a folder that is of no kind; the message lists the expected files.
  Result<std::shared_ptr<const DatasetKind>> Find(const std::filesystem::path& dir,
                                                  std::string_view told) const;

 private:
  std::vector<std::shared_ptr<const DatasetKind>> kinds_;
};

/// Where a dataset is, as people write it: DIR, or KIND:DIR.
struct DatasetPlace {
  std::string kind;  // empty: found by looking at the folder
  std::filesystem::path dir;
};

/// Reads DIR or KIND:DIR. Text before the first colon is a kind if it could be the name of one; a
/// relative folder with a colon in its name is written ./a:b.
DatasetPlace ParseDatasetPlace(std::string_view text);
/// The same text.
std::string FormatDatasetPlace(const DatasetPlace& place);

}  // namespace millrace
