#include "server/kinds/tokens/token_documents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace millrace {
namespace {

/// The number of the file of a document. REQUIRES: `first` has the number of the first document of
/// each file, and of all.
std::uint32_t FileWith(const std::vector<std::uint64_t>& first, std::uint64_t document) {
  const auto after = std::upper_bound(first.begin(), first.end(), document);
  return static_cast<std::uint32_t>(after - first.begin()) - 1;
}

class Sequences final : public TokenDocuments {
 public:
  explicit Sequences(std::shared_ptr<const TokensDataset> dataset) : dataset_(std::move(dataset)) {
    const TokensIndex& index = dataset_->index();
    width_ = DTypeSize(*index.dtype());
    first_.push_back(0);
    for (const TokensIndex::Data& data : index.data()) {
      const TokensFile& idx = index.files()[*data.sequences];
      first_.push_back(first_.back() + idx.sequences);
      tokens_.push_back(idx.tokens);
      longest_ = std::max(longest_, idx.longest);
    }
  }

  /// Maps every X.idx, so that what is read later is what was checked.
  Status Open() const {
    for (std::size_t data = 0; data < tokens_.size(); ++data) {
      MILLRACE_RETURN_IF_ERROR(dataset_->OpenSequences(data).status());
    }
    return OkStatus();
  }

  std::uint64_t size() const override { return first_.back(); }
  std::uint64_t longest() const override { return longest_; }
  std::uint64_t FirstOf(std::size_t data) const override { return first_[data]; }
  std::uint32_t FileOf(std::uint64_t document) const override { return FileWith(first_, document); }

  Result<DocumentPlace> Find(std::uint64_t document) const override {
    DocumentPlace place;
    place.data = FileOf(document);
    place.number = document - first_[place.data];
    MILLRACE_ASSIGN_OR_RETURN(const SequencePlaces places, dataset_->OpenSequences(place.data));
    const std::int32_t length = places.Length(place.number);
    const std::int64_t offset = places.Offset(place.number);
    const std::uint64_t tokens = tokens_[place.data];
    const bool fits =
        length >= 0 && offset >= 0 && static_cast<std::uint64_t>(offset) % width_ == 0 &&
        static_cast<std::uint64_t>(offset) / width_ <= tokens &&
        static_cast<std::uint64_t>(length) <= tokens - static_cast<std::uint64_t>(offset) / width_;
    if (!fits) {
      return dataset_->DamagedSequences(place.data, fmt::format("sequence {}: length {}, offset {}",
                                                                place.number, length, offset));
    }
    place.first = static_cast<std::uint64_t>(offset) / width_;
    place.tokens = static_cast<std::uint64_t>(length);
    return place;
  }

  void ReadLengths(std::uint64_t first, std::span<std::int64_t> lengths) const override {
    std::size_t done = 0;
    while (done < lengths.size()) {
      const std::uint32_t data = FileOf(first + done);
      const std::uint64_t begin = first + done - first_[data];
      const std::uint64_t count =
          std::min<std::uint64_t>(lengths.size() - done, first_[data + 1] - (first + done));
      const Result<SequencePlaces> places = dataset_->OpenSequences(data);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::int32_t length = places.ok() ? places->Length(begin + i) : 0;
        lengths[done + i] = std::max(length, 0);
        if (length < 0) {
          static_cast<void>(dataset_->DamagedSequences(
              data, fmt::format("sequence {}: length {}", begin + i, length)));
        }
      }
      done += count;
    }
  }

 private:
  const std::shared_ptr<const TokensDataset> dataset_;
  std::uint64_t width_ = 1;
  std::vector<std::uint64_t> first_;   // sequence of each file; one more than files
  std::vector<std::uint64_t> tokens_;  // of each file
  std::uint64_t longest_ = 0;
};

class Files final : public TokenDocuments {
 public:
  explicit Files(const RawLayout& layout) : tokens_(layout.tokens) {
    first_.push_back(0);
    for (const std::uint64_t tokens : tokens_) {
      first_.push_back(first_.back() + (tokens > 0 ? 1 : 0));
    }
  }

  std::uint64_t size() const override { return first_.back(); }
  std::uint64_t longest() const override {
    return tokens_.empty() ? 0 : *std::max_element(tokens_.begin(), tokens_.end());
  }
  std::uint64_t FirstOf(std::size_t data) const override { return first_[data]; }
  std::uint32_t FileOf(std::uint64_t document) const override { return FileWith(first_, document); }
  Result<DocumentPlace> Find(std::uint64_t document) const override {
    const std::uint32_t data = FileOf(document);
    return DocumentPlace{data, 0, 0, tokens_[data]};
  }
  void ReadLengths(std::uint64_t first, std::span<std::int64_t> lengths) const override {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = static_cast<std::int64_t>(tokens_[FileOf(first + i)]);
    }
  }

 private:
  const std::vector<std::uint64_t> tokens_;  // of each file
  std::vector<std::uint64_t> first_;         // document of each file; one more than files
};

class Marked final : public TokenDocuments {
 public:
  explicit Marked(std::shared_ptr<const MarkedDocuments> marked) : marked_(std::move(marked)) {}

  std::uint64_t size() const override { return marked_->size(); }
  std::uint64_t longest() const override { return marked_->longest(); }
  std::uint64_t FirstOf(std::size_t data) const override { return marked_->FirstOf(data); }
  std::uint32_t FileOf(std::uint64_t document) const override { return marked_->FileOf(document); }
  Result<DocumentPlace> Find(std::uint64_t document) const override {
    return marked_->Find(document);
  }
  void ReadLengths(std::uint64_t first, std::span<std::int64_t> lengths) const override {
    marked_->lengths().Read(first, lengths);
  }

 private:
  const std::shared_ptr<const MarkedDocuments> marked_;
};

}  // namespace

Result<std::shared_ptr<const TokenDocuments>> SequencesOf(
    std::shared_ptr<const TokensDataset> dataset) {
  auto sequences = std::make_shared<const Sequences>(std::move(dataset));
  MILLRACE_RETURN_IF_ERROR(sequences->Open());
  return std::shared_ptr<const TokenDocuments>(std::move(sequences));
}

std::shared_ptr<const TokenDocuments> WholeFiles(const RawLayout& layout) {
  return std::make_shared<const Files>(layout);
}

std::shared_ptr<const TokenDocuments> MarkedOnes(std::shared_ptr<const MarkedDocuments> marked) {
  return std::make_shared<const Marked>(std::move(marked));
}

}  // namespace millrace
