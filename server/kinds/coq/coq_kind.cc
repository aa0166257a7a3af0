#include "server/kinds/coq/coq_kind.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "server/kinds/coq/coq_dataset.h"
#include "server/kinds/coq/coq_generate.h"
#include "server/kinds/coq/coq_reports.h"
#include "server/kinds/coq/coq_source.h"
#include "server/kinds/coq/coq_stages.h"
#include "server/kinds/coq/index/index_store.h"
#include "server/kinds/coq/verify.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

IndexOptions ToIndexOptions(const DatasetOpenOptions& from) {
  IndexOptions to;
  to.index_file = from.index_file;
  to.cache_dir = from.cache_dir;
  to.force = from.force;
  to.logger = from.logger;
  to.one_build = from.one_build;
  to.build.skip_bad = from.skip_bad;
  to.build.threads = from.threads;
  to.build.stop = from.stop;
  to.build.progress = from.progress;
  return to;
}

/// Finds an index from a time when all files were good. It is usable only if it has all files that
/// are bad now.
std::shared_ptr<const DatasetIndex> IndexOfBetterDays(const fs::path& dir,
                                                      const IndexOptions& options,
                                                      const std::vector<std::string>& bad) {
  Result<std::shared_ptr<const DatasetIndex>> index = FindIndex(dir, options);
  if (!index.ok()) return nullptr;
  for (const std::string& name : bad) {
    bool known = false;
    for (std::uint32_t f = 0; f < (*index)->files().size() && !known; ++f) {
      known = (*index)->file_name(f) == name;
    }
    if (!known) return nullptr;
  }
  return *std::move(index);
}

/// Bad files that the index leaves out, without the good ones that need them.
std::uint64_t BadFilesLeftOut(const DatasetIndex& index) {
  const auto left_out = index.left_out();
  return static_cast<std::uint64_t>(
      std::count_if(left_out.begin(), left_out.end(), [](const LeftOutRecord& file) {
        return static_cast<LeftOutWhy>(file.why) != LeftOutWhy::kNeedsBad;
      }));
}

/// Makes a source of a dataset of this kind. REQUIRES: the dataset is of this kind.
template <auto kMake>
Result<std::shared_ptr<const Source>> Make(std::shared_ptr<const Dataset> dataset,
                                           const PlanParts& parts) {
  return kMake(std::static_pointer_cast<const CoqDataset>(std::move(dataset)), parts);
}

class CoqKind final : public DatasetKind {
 public:
  std::string_view name() const override { return kCoqKind; }
  std::string_view looks_for() const override { return "*.bin file below it"; }
  bool IsOne(const fs::path& dir) const override { return HasDatasetFile(dir); }
  const SourceTable& sources() const override { return sources_; }
  std::vector<AddedStage> stages() const override { return CoqStages(); }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& from) const override {
    std::vector<BadFile> bad_files;
    IndexOptions options = ToIndexOptions(from);
    options.bad = &bad_files;
    const auto index = OpenOrBuildIndex(dir, options);
    OpenedDataset opened;
    opened.status = index.status();
    std::shared_ptr<const DatasetIndex> usable;
    if (index.ok()) {
      usable = *index;
      opened.bad_files = BadFilesLeftOut(*usable);
    } else if (!bad_files.empty()) {
      for (const BadFile& file : bad_files) opened.damaged.push_back(file.name);
      opened.bad_files = bad_files.size();
      usable = IndexOfBetterDays(dir, options, opened.damaged);
    }
    if (usable) opened.dataset = std::make_shared<const CoqDataset>(dir, std::move(usable));
    return opened;
  }

  Result<std::string> Index(const fs::path& dir, const DatasetOpenOptions& options) const override {
    CoqIndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const DatasetIndex> index,
                              OpenOrBuildIndex(dir, ToIndexOptions(options), &outcome));
    return DescribeIndexing(*index, outcome);
  }

  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& options) const override {
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const DatasetIndex> index,
                              OpenOrBuildIndex(dir, ToIndexOptions(options)));
    return DescribeContents(*index) + DescribeLinkedFolders(dir);
  }

  Result<std::string> Verify(const fs::path& dir, const DatasetOpenOptions& from) const override {
    const IndexOptions options = ToIndexOptions(from);
    MILLRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const DatasetIndex> index,
                              FindIndex(dir, options));
    MILLRACE_RETURN_IF_ERROR(VerifyDataset(dir, *index, options.build));
    std::uint64_t bytes = 0;
    for (const FileRecord& file : index->files()) bytes += file.size;
    std::string text = fmt::format("{} files, {} bytes: all as indexed\ndigest {}\n",
                                   index->files().size(), bytes, index->digest().ToHex());
    if (!index->left_out().empty()) {
      text += fmt::format("{} files left out of the index\n", index->left_out().size());
    }
    return text;
  }

  std::vector<Parameter> generate_parameters() const override { return CoqGenerateParameters(); }
  Result<std::string> Generate(const fs::path& dir, const GenerateRequest& request) const override {
    return GenerateCoq(dir, request);
  }

  Result<DatasetListing> FilesToWarm(const fs::path& dir) const override {
    MILLRACE_ASSIGN_OR_RETURN(DatasetListing listing, ListDataset(dir));
    std::error_code error;
    if (fs::exists(dir / kIndexFileName, error)) {
      const Result<FileIdentity> index = IdentifyFile(dir / kIndexFileName);
      if (index.ok()) {
        listing.names.emplace_back(kIndexFileName);
        listing.identities.push_back(*index);
      }
    }
    return listing;
  }

 private:
  const SourceTable sources_ = SourceTable({
      {.name = "proof_states",
       .help = "one example a proof state",
       .make = Make<MakeProofStateSource>,
       .has_graphs = true},
      {.name = "definitions",
       .help = "one a cluster of definitions",
       .make = Make<MakeDefinitionSource>,
       .has_graphs = true},
  });
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeCoqKind() { return std::make_shared<CoqKind>(); }

}  // namespace millrace
