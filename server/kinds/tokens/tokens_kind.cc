#include "server/kinds/tokens/tokens_kind.h"

#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/files/index_place.h"
#include "server/kinds/tokens/describe_tokens.h"
#include "server/kinds/tokens/generator/tokens_generator.h"
#include "server/kinds/tokens/index/tokens_index_store.h"
#include "server/kinds/tokens/index/tokens_scan.h"
#include "server/kinds/tokens/tokens_dataset.h"
#include "server/kinds/tokens/tokens_source.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

/// The files of tokens are mapped, so nothing is gained by keeping what was built of them.
StageType NoCache() {
  StageType stage;
  stage.name = "cache";
  stage.unused = [](std::string_view source, const Params&) -> std::vector<std::string> {
    if (source == kTokensKind) return {"examples"};
    return {};
  };
  return stage;
}

/// The name by which pipelines exclude what a bad file makes unusable: an X.idx whose X.bin is gone
/// is called after that.
std::string DamagedName(const fs::path& dir, const std::string& bad) {
  if (!IsSequencesName(bad)) return bad;
  std::error_code error;
  return fs::exists(dir / OtherHalf(bad), error) ? bad : OtherHalf(bad);
}

class TokensKind final : public DatasetKind {
 public:
  std::string_view name() const override { return kTokensKind; }
  std::string_view looks_for() const override {
    return "*.idx file below it that begins with MMIDIDX";
  }
  bool IsOne(const fs::path& dir) const override { return HasSequenceIndex(dir); }
  const SourceTable& sources() const override { return sources_; }
  std::vector<AddedStage> stages() const override { return {{NoCache(), "exclude"}}; }

  OpenedDataset Open(const fs::path& dir, const DatasetOpenOptions& options) const override {
    IndexOutcome outcome;
    auto index = OpenOrBuildTokensIndex(dir, options, outcome);
    OpenedDataset opened;
    opened.status = index.status();
    std::shared_ptr<const TokensIndex> usable;
    if (index.ok()) {
      usable = *std::move(index);
      opened.bad_files = usable->left_out().size();
    } else if (!outcome.bad.empty()) {
      for (const BadFile& file : outcome.bad) {
        opened.damaged.push_back(DamagedName(dir, file.name));
      }
      opened.bad_files = outcome.bad.size();
      usable = IndexOfBetterDays<TokensIndex>(dir, options, opened.damaged);
    }
    if (usable) {
      opened.dataset = std::make_shared<const TokensDataset>(dir, std::move(usable), options);
    }
    return opened;
  }

  Result<std::string> Index(const fs::path& dir, const DatasetOpenOptions& options) const override {
    IndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(auto index, OpenOrBuildTokensIndex(dir, options, outcome));
    const std::string work = DescribeBuilding(outcome, index->files().size());
    return work +
           DescribeTokens(std::make_shared<const TokensDataset>(dir, std::move(index), options));
  }

  Result<std::string> Inspect(const fs::path& dir,
                              const DatasetOpenOptions& options) const override {
    IndexOutcome outcome;
    MILLRACE_ASSIGN_OR_RETURN(auto index, OpenOrBuildTokensIndex(dir, options, outcome));
    const auto dataset = std::make_shared<const TokensDataset>(dir, std::move(index), options);
    return DescribeTokens(dataset) + SuggestTokensSource(*dataset);
  }

  Result<std::string> Verify(const fs::path& dir,
                             const DatasetOpenOptions& options) const override {
    MILLRACE_ASSIGN_OR_RETURN(const auto index, FindTokensIndex(dir, options));
    MILLRACE_RETURN_IF_ERROR(VerifyTokens(dir, *index, options));
    return DescribeVerified(index->files().size(), index->bytes(), index->digest(),
                            index->left_out().size());
  }

  Result<DatasetListing> FilesToWarm(const fs::path& dir) const override {
    MILLRACE_ASSIGN_OR_RETURN(DatasetListing listing, ListTokens(dir));
    return WithIndex(dir, std::move(listing));
  }

  std::vector<Parameter> generate_parameters() const override { return TokensGenerateParameters(); }
  Result<std::string> Generate(const fs::path& dir, const GenerateRequest& request) const override {
    return GenerateTokens(dir, request);
  }

 private:
  const SourceTable sources_ = TokensSources();
};

}  // namespace

std::shared_ptr<const DatasetKind> MakeTokensKind() { return std::make_shared<TokensKind>(); }

}  // namespace millrace
