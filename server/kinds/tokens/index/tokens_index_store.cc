#include "server/kinds/tokens/index/tokens_index_store.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/kinds/tokens/index/tokens_scan.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

class TokensStore final : public IndexStore<TokensIndex, TokensFile> {
 public:
  using IndexStore::IndexStore;

 private:
  std::string_view magic() const override { return kTokensIndexMagic; }
  bool IsDataFile(std::string_view last) const override { return IsTokensFile(last); }
  Result<DatasetListing> List() const override { return ListTokens(dir()); }

  Status Prepare(std::vector<std::optional<BadFile>>& bad) override {
    ReadTokenFiles read =
        ReadHeaders(dir(), listing(), options().skip_bad, options().threads, options().stop);
    MILLRACE_RETURN_IF_ERROR(
        CheckIndexStop(options().stop).WithContext("dataset " + dir().string()));
    if (!options().skip_bad) {
      std::vector<BadFile> all = listing().bad;
      for (const std::optional<BadFile>& file : read.bad) {
        if (file) all.push_back(*file);
      }
      if (!all.empty()) return BadFilesError(std::move(all), kSkipBadHelps);
    }
    MILLRACE_RETURN_IF_ERROR(CheckTogether(dir(), read));
    bad = std::move(read.bad);
    files_ = std::move(read.files);
    return OkStatus();
  }

  Result<TokensFile> Read(std::size_t number, const TokensFile* /*before*/,
                          const ReportBytes& progress) const override {
    TokensFile file = files_[number];
    MILLRACE_ASSIGN_OR_RETURN(
        file.file.digest,
        HashTokensFile(dir() / file.file.name, *file.file.identity, options().stop, progress));
    return file;
  }
  /// The header was read anew, because another file may have made a pair of it, or none.
  TokensFile TakeOver(const TokensIndex& older, std::uint32_t file,
                      std::size_t number) const override {
    TokensFile now = files_[number];
    now.file.digest = older.files()[file].file.digest;
    return now;
  }

  Status Write(const fs::path& place, std::vector<TokensFile> entries,
               std::vector<OmittedFile> left_out) const override {
    std::set<std::string, std::less<>> names;
    for (const TokensFile& file : entries) names.insert(file.file.name);
    TokensIndexContent content;
    content.left_out = std::move(left_out);
    for (TokensFile& file : entries) {
      const bool alone =
          (file.form == TokensForm::kSequences || file.form == TokensForm::kPaired) &&
          !names.contains(OtherHalf(file.file.name));
      if (alone) {
        // Its other half turned out to be bad when it was read.
        content.left_out.push_back({{file.file.name, "its other half is bad"}, file.file.identity});
      } else {
        content.files.push_back(std::move(file));
      }
    }
    return TokensIndex::Write(place, content);
  }
  LogField CountOf(const TokensIndex& index) const override {
    return {"files_with_tokens", index.data().size()};
  }

  std::vector<TokensFile> files_;  // of the listing
};

}  // namespace

Result<std::shared_ptr<const TokensIndex>> OpenOrBuildTokensIndex(const fs::path& dir,
                                                                  const DatasetOpenOptions& options,
                                                                  IndexOutcome& outcome) {
  return TokensStore(dir, options, outcome).Run();
}

Result<std::shared_ptr<const TokensIndex>> FindTokensIndex(const fs::path& dir,
                                                           const DatasetOpenOptions& options) {
  MILLRACE_RETURN_IF_ERROR(ListTokens(dir).status());
  return FindIndex<TokensIndex>(dir, options);
}

Status VerifyTokens(const fs::path& dir, const TokensIndex& index,
                    const DatasetOpenOptions& options) {
  FilesToVerify indexed;
  MILLRACE_ASSIGN_OR_RETURN(indexed.listing, ListTokens(dir));
  indexed.left_out = index.left_out();
  for (const TokensFile& file : index.files()) indexed.files.push_back(file.file);
  return VerifyIndexedFiles(dir, indexed, options);
}

}  // namespace millrace
