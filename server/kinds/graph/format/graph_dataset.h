// An open graph dataset (docs/formats/graph-dataset.md): its arrays, mapped or in memory, and
// checked reads of them.
//
// Opening reads graph.json, the headers of .npy files and the ends of indptr, and no contents. So
// every number is checked where it is read; a bad one is DataLoss that names file and array.
//
// Immutable except for known damage; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "server/files/damaged_files.h"
#include "server/files/huge_memory.h"
#include "server/kinds/graph/format/content_check.h"
#include "server/kinds/graph/format/graph_array.h"
#include "server/kinds/graph/format/graph_description.h"
#include "server/kinds/graph/format/verified_files.h"
#include "server/kinds/graph/format/watched_files.h"
#include "server/source/dataset.h"
#include "server/source/progress.h"

namespace millrace {

/// Neighbours, from `begin` to before `end`: nodes, or places in `indices`.
struct GraphRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  bool Contains(std::uint64_t number) const { return begin <= number && number < end; }
};

inline constexpr std::string_view kGraphKind = "graph";

struct GraphOpenOptions {
  /// CheckFiles compares contents with graph.json too. Files found right are remembered at the
  /// first of `remembered_at` that can be written.
  bool verify_contents = false;
  std::vector<std::filesystem::path> remembered_at;
  std::uint64_t bytes_at_once = ContentCheck::kBytesAtOnce;  // compared at one call of CheckFiles
};

struct GraphCopyOptions {
  unsigned threads = 0;  // 0: one for each CPU that the process may use
  std::stop_token stop;
  /// Files found right are added. May be nullptr.
  VerifiedFiles* verified = nullptr;
  /// Called from several threads, but by only one at a time. May be empty.
  std::function<void(const IndexProgress&)> progress;
};

class GraphDataset final : public Dataset {
 public:
  /// NotFound if there is no folder, or no graph.json in it. DataLoss that names file and array if
  /// something does not fit. PermissionDenied. ResourceExhausted.
  static Result<std::shared_ptr<const GraphDataset>> Open(const std::filesystem::path& dir,
                                                          const GraphOpenOptions& options = {});

  /// Opens the dataset, copies its files into memory, and compares the copies with graph.json.
  /// Later changes of the files do not matter, and are not reported. Errors of Open and of
  /// VerifyGraph; ResourceExhausted with the bytes needed and had, before anything is copied.
  static Result<std::shared_ptr<const GraphDataset>> OpenInMemory(const std::filesystem::path& dir,
                                                                  const GraphCopyOptions& options);

  GraphDataset(const GraphDataset&) = delete;
  GraphDataset& operator=(const GraphDataset&) = delete;

  std::string_view kind() const override { return kGraphKind; }
  const std::filesystem::path& dir() const override { return dir_; }
  Digest128 digest() const override { return digest_; }
  std::uint64_t examples() const override { return nodes(); }
  /// The files of the arrays, by their paths in graph.json.
  std::uint64_t file_count() const override { return Files().size(); }
  std::vector<DatasetFile> Files() const override;
  /// See WatchedFiles.
  FileNews CheckFiles(const std::stop_token& stop = {}) const override {
    return files_->Check(stop);
  }
  double unverified() const override { return files_->unverified(); }
  bool can_exclude_files() const override { return false; }  // every array is needed
  std::vector<DamagedFile> Damages() const override { return files_->Damages(); }
  std::uint64_t in_memory_bytes() const override { return copies_.bytes().size(); }
  /// How many bytes of the copies are in huge pages now.
  std::uint64_t huge_page_bytes() const { return copies_.HugeBytes(); }

  const GraphDescription& description() const { return description_; }
  std::uint64_t nodes() const { return description_.nodes; }
  std::uint64_t edges() const { return description_.edges; }
  /// Every label is below these. 1 if there are no labels. If they have no names, the array's type
  /// gives the bound.
  std::uint32_t edge_labels() const { return edge_labels_; }
  std::uint32_t node_labels() const { return node_labels_; }

  /// The array with this name, or nullptr. It lives as long as the dataset.
  const GraphArray* Find(std::string_view name) const;
  const GraphArray& indptr() const { return *indptr_; }
  const GraphArray& indices() const { return *indices_; }

  // The next functions read numbers and check them.
  /// The places in `indices` of a node's row. REQUIRES: node < nodes().
  Result<GraphRange> Row(std::uint64_t node) const;
  /// Where an entry of a row leads to, or comes from. REQUIRES: place < edges().
  Result<std::uint64_t> Neighbour(std::uint64_t place) const;
  /// A label; 0 without labels. REQUIRES: node < nodes(); place < edges().
  Result<std::uint32_t> NodeLabel(std::uint64_t node) const;
  Result<std::uint32_t> EdgeLabel(std::uint64_t place) const;
  /// A node of a list of roots. REQUIRES: `roots` is one of them; row < roots.rows().
  Result<std::uint64_t> Root(const GraphArray& roots, std::uint64_t row) const;
  /// The nodes of a small graph. REQUIRES: `graphs` is a list of graphs; row + 1 < graphs.rows().
  Result<GraphRange> SmallGraph(const GraphArray& graphs, std::uint64_t row) const;

  /// DataLoss for a number of an array that cannot be right.
  Status BadNumber(const GraphArray& array, std::uint64_t place, std::string_view what) const;
  /// DataLoss for the entry at `place` in the row of `node`, which leads to `other`, outside the
  /// small graph that `node` is in.
  Status LeavesSmallGraph(const GraphRange& graph, std::uint64_t node, std::uint64_t place,
                          std::uint64_t other) const;

  /// The mapped files: the files of the arrays, and graph.json. Empty if they are in memory.
  const WatchedFiles& files() const { return *files_; }

 private:
  class Opener;

  GraphDataset() = default;
  static Result<std::shared_ptr<GraphDataset>> OpenMapped(const std::filesystem::path& dir,
                                                          const GraphOpenOptions& options);
  Status CheckEnds() const;
  Result<std::uint64_t> NumberBelow(const GraphArray& array, std::uint64_t place,
                                    std::uint64_t bound) const;

  std::filesystem::path dir_;
  GraphDescription description_;
  Digest128 digest_;
  std::uint32_t edge_labels_ = 1;
  std::uint32_t node_labels_ = 1;
  std::map<std::string, GraphArray, std::less<>> arrays_;
  const GraphArray* indptr_ = nullptr;
  const GraphArray* indices_ = nullptr;
  const GraphArray* edge_label_ = nullptr;  // nullptr if there are no labels
  const GraphArray* node_label_ = nullptr;
  std::unique_ptr<const WatchedFiles> files_;
  HugeMemory copies_;  // of all files
};

/// Whether the folder has a graph.json.
bool IsGraphDataset(const std::filesystem::path& dir);

}  // namespace millrace
