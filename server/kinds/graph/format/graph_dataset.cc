#include "server/kinds/graph/format/graph_dataset.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/files/file_identity.h"
#include "server/files/mapped_file.h"
#include "server/files/npy_header.h"
#include "server/kinds/graph/format/graph_json.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

bool IsNpy(std::string_view path) { return path.ends_with(".npy") || path.ends_with(".npz"); }

/// A fault reads only its own page where single rows are read here and there, and more where a
/// whole column is read too.
AccessPattern PatternOf(const ArrayName& name) {
  switch (name.role) {
    case ArrayRole::kIndices:
    case ArrayRole::kEdgeLabel:
    case ArrayRole::kNodeFeature:
    case ArrayRole::kEdgeFeature:
      return AccessPattern::kRandom;
    default:
      return AccessPattern::kMixed;
  }
}

/// Whether a .npy file has the array that graph.json says. The caller adds file and array.
Status CheckNpy(std::span<const std::byte> file, const ArrayRecord& array) {
  MILLRACE_ASSIGN_OR_RETURN(const StoredArray stored, ReadNpyHeader(file));
  const ArrayType expected{NpyDType(array.type.dtype), array.type.shape};
  if (stored.type == expected && stored.offset == array.offset) return OkStatus();
  return DataLoss(
      fmt::format("its header says {} from byte {} on, but graph.json {} from byte {} on",
                  stored.type.ToString(), stored.offset, expected.ToString(), array.offset));
}

/// Every label is below this. Names alone, without an array, say nothing of any node or edge.
std::uint32_t LabelBound(const GraphArray* array, std::size_t names, std::uint64_t most) {
  if (array == nullptr) return 1;
  if (names > 0) return static_cast<std::uint32_t>(names);
  return static_cast<std::uint32_t>(std::min(DTypeMax(array->type.dtype), most - 1) + 1);
}

}  // namespace

/// Opens the files of one dataset.
class GraphDataset::Opener {
 public:
  explicit Opener(GraphDataset& dataset) : dataset_(dataset) {}

  Status Run(const GraphOpenOptions& options) {
    MILLRACE_RETURN_IF_ERROR(ReadDescription());
    for (const auto& entry : dataset_.description_.arrays) NameFile(entry.first, entry.second);
    for (const auto& entry : dataset_.description_.arrays) {
      MILLRACE_RETURN_IF_ERROR(
          OpenArray(entry.first, entry.second).WithContext(names_.at(entry.second.path)));
    }
    dataset_.files_ =
        options.verify_contents
            ? std::make_unique<const WatchedFiles>(
                  std::move(files_), VerifiedFiles(options.remembered_at), options.bytes_at_once)
            : std::make_unique<const WatchedFiles>(std::move(files_));
    return OkStatus();
  }

 private:
  Status ReadDescription() {
    const std::string name(kGraphFileName);
    auto file = MappedFile::Open(dataset_.dir_ / name, AccessPattern::kSequential);
    if (!file.ok()) return file.status().WithContext(name);
    if (file->bytes().size() > kMaxGraphFileBytes) {
      return DataLoss(fmt::format("{}: has {} bytes, expected at most {}", name,
                                  file->bytes().size(), kMaxGraphFileBytes));
    }
    // The check works on a copy, because the file may change meanwhile.
    const std::string text(TextOfBytes(file->bytes()));
    MILLRACE_RETURN_IF_ERROR(file->CheckIntact().WithContext(name));
    auto description = ReadGraphJson(text);
    if (!description.ok()) return description.status().WithContext(name);
    dataset_.description_ = *std::move(description);
    dataset_.digest_ = DigestOf(dataset_.description_);
    files_.push_back({*std::move(file), Xxh3(text), name});
    return OkStatus();
  }

  /// Files are named with their arrays.
  void NameFile(const std::string& array, const ArrayRecord& record) {
    std::string& name = names_[record.path];
    if (name.empty()) {
      name = fmt::format("{} (array {})", record.path, array);
    } else {
      name.insert(name.size() - 1, ", " + array);
    }
  }

  Status OpenArray(const std::string& name, const ArrayRecord& record) {
    MILLRACE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, Bytes(name, record));
    if (IsNpy(record.path)) MILLRACE_RETURN_IF_ERROR(CheckNpy(bytes, record));
    const bool empty = *record.type.Bytes() == 0;
    dataset_.arrays_.emplace(name, GraphArray{name, record.path, record.type,
                                              empty ? nullptr : bytes.data() + record.offset});
    return OkStatus();
  }

  /// The bytes of an array's file, which is mapped now if it is not yet.
  Result<std::span<const std::byte>> Bytes(const std::string& name, const ArrayRecord& record) {
    const auto known = opened_.find(record.path);
    if (known != opened_.end()) return files_[known->second].file.bytes();
    const fs::path path = dataset_.dir_ / record.path;
    MILLRACE_ASSIGN_OR_RETURN(const FileIdentity identity, Identify(path));
    if (identity.size != record.bytes) return WrongSize(identity.size, record.bytes);
    // An empty file cannot be mapped; a raw array without values may be one.
    if (record.bytes == 0) return std::span<const std::byte>();
    MILLRACE_ASSIGN_OR_RETURN(MappedFile file,
                              MappedFile::Open(path, PatternOf(*ParseArrayName(name))));
    if (file.bytes().size() != record.bytes) return WrongSize(file.bytes().size(), record.bytes);
    opened_.emplace(record.path, files_.size());
    files_.push_back({std::move(file), record.xxh3, names_.at(record.path)});
    return files_.back().file.bytes();
  }

  /// A file that graph.json names and that is not there makes the dataset bad.
  static Result<FileIdentity> Identify(const fs::path& path) {
    Result<FileIdentity> identity = IdentifyFile(path);
    if (identity.ok() || identity.status().code() != StatusCode::kNotFound) return identity;
    return DataLoss(identity.status().message());
  }

  static Status WrongSize(std::uint64_t bytes, std::uint64_t expected) {
    return DataLoss(fmt::format("has {} bytes, expected {}: it {}", bytes, expected,
                                bytes < expected ? "was cut off" : "has grown"));
  }

  GraphDataset& dataset_;
  std::map<std::string, std::string> names_;   // names of files in messages, by path
  std::map<std::string, std::size_t> opened_;  // places in files_, by path
  std::vector<WatchedFile> files_;
};

Result<std::shared_ptr<const GraphDataset>> GraphDataset::Open(const fs::path& dir,
                                                               const GraphOpenOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<GraphDataset> dataset, OpenMapped(dir, options));
  return std::shared_ptr<const GraphDataset>(std::move(dataset));
}

Result<std::shared_ptr<GraphDataset>> GraphDataset::OpenMapped(const fs::path& dir,
                                                               const GraphOpenOptions& options) {
  const std::string where = "dataset " + dir.string();
  std::error_code error;
  if (!fs::exists(dir, error)) return NotFound(fmt::format("no folder '{}'", dir.string()));
  const std::shared_ptr<GraphDataset> dataset(new GraphDataset);
  dataset->dir_ = dir;
  MILLRACE_RETURN_IF_ERROR(Opener(*dataset).Run(options).WithContext(where));
  dataset->indptr_ = dataset->Find("indptr");
  dataset->indices_ = dataset->Find("indices");
  dataset->edge_label_ = dataset->Find("edge_label");
  dataset->node_label_ = dataset->Find("node_label");
  const auto& description = dataset->description_;
  const auto names = [](const auto& labels) { return labels ? labels->size() : std::size_t{0}; };
  dataset->edge_labels_ =
      LabelBound(dataset->edge_label_, names(description.edge_labels), kMaxEdgeLabels);
  dataset->node_labels_ =
      LabelBound(dataset->node_label_, names(description.node_labels), kMaxNodeLabels);
  MILLRACE_RETURN_IF_ERROR(dataset->CheckEnds());
  // A read of a file that was cut off meanwhile gave zeros.
  for (const WatchedFile& file : dataset->files_->files()) {
    MILLRACE_RETURN_IF_ERROR(file.file.CheckIntact().WithContext(where + ": " + file.name));
  }
  return dataset;
}

Status GraphDataset::CheckEnds() const {
  const std::uint64_t first = indptr_->NumberAt(0);
  const std::uint64_t last = indptr_->NumberAt(nodes());
  if (first != 0) {
    return BadNumber(*indptr_, 0,
                     fmt::format("is {}, expected 0", static_cast<std::int64_t>(first)));
  }
  if (last == edges()) return OkStatus();
  return BadNumber(
      *indptr_, nodes(),
      fmt::format("is {}, expected the {} edges", static_cast<std::int64_t>(last), edges()));
}

std::vector<DatasetFile> GraphDataset::Files() const {
  std::map<std::string_view, const ArrayRecord*> by_path;
  for (const auto& entry : description_.arrays) by_path.emplace(entry.second.path, &entry.second);
  std::vector<DatasetFile> files;
  for (const auto& entry : by_path) {
    files.push_back({entry.second->path, entry.second->bytes, entry.second->xxh3});
  }
  return files;
}

const GraphArray* GraphDataset::Find(std::string_view name) const {
  const auto found = arrays_.find(name);
  return found == arrays_.end() ? nullptr : &found->second;
}

Status GraphDataset::BadNumber(const GraphArray& array, std::uint64_t place,
                               std::string_view what) const {
  return DataLoss(
      fmt::format("dataset {}: {}: number {} {}", dir_.string(), array.Where(), place, what));
}

Status GraphDataset::LeavesSmallGraph(const GraphRange& graph, std::uint64_t node,
                                      std::uint64_t place, std::uint64_t other) const {
  return BadNumber(*indices_, place,
                   fmt::format("is {} in the row of node {}, whose small graph has the nodes {} to "
                               "below {}: no edge leads from one small graph to another",
                               other, node, graph.begin, graph.end));
}

Result<std::uint64_t> GraphDataset::NumberBelow(const GraphArray& array, std::uint64_t place,
                                                std::uint64_t bound) const {
  const std::uint64_t number = array.NumberAt(place);
  if (number < bound) return number;
  return BadNumber(
      array, place,
      IsSigned(array.type.dtype)
          ? fmt::format("is {}, expected 0 to below {}", static_cast<std::int64_t>(number), bound)
          : fmt::format("is {}, expected 0 to below {}", number, bound));
}

Result<GraphRange> GraphDataset::Row(std::uint64_t node) const {
  const std::uint64_t begin = indptr_->NumberAt(node);
  const std::uint64_t end = indptr_->NumberAt(node + 1);
  if (begin <= end && end <= edges() && end - begin <= 0xFFFFFFFF) return GraphRange{begin, end};
  return BadNumber(
      *indptr_, node,
      fmt::format("and the next are {} and {}, expected a row of fewer than 2^32 of "
                  "the {} edges",
                  static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), edges()));
}

Result<std::uint64_t> GraphDataset::Neighbour(std::uint64_t place) const {
  return NumberBelow(*indices_, place, nodes());
}

Result<std::uint32_t> GraphDataset::NodeLabel(std::uint64_t node) const {
  if (node_label_ == nullptr) return std::uint32_t{0};
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t label,
                            NumberBelow(*node_label_, node, node_labels_));
  return static_cast<std::uint32_t>(label);
}

Result<std::uint32_t> GraphDataset::EdgeLabel(std::uint64_t place) const {
  if (edge_label_ == nullptr) return std::uint32_t{0};
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t label,
                            NumberBelow(*edge_label_, place, edge_labels_));
  return static_cast<std::uint32_t>(label);
}

Result<std::uint64_t> GraphDataset::Root(const GraphArray& roots, std::uint64_t row) const {
  return NumberBelow(roots, row, nodes());
}

Result<GraphRange> GraphDataset::SmallGraph(const GraphArray& graphs, std::uint64_t row) const {
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t begin, NumberBelow(graphs, row, nodes() + 1));
  MILLRACE_ASSIGN_OR_RETURN(const std::uint64_t end, NumberBelow(graphs, row + 1, nodes() + 1));
  if (begin <= end) return GraphRange{begin, end};
  return BadNumber(graphs, row,
                   fmt::format("is {}, but the next is {}: a graph cannot end before "
                               "it begins",
                               begin, end));
}

bool IsGraphDataset(const fs::path& dir) {
  std::error_code ignored;
  return fs::exists(dir / kGraphFileName, ignored);
}

}  // namespace millrace
