#include "server/kinds/tokens/marked_documents.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/system/mutex.h"
#include "common/system/parallel.h"
#include "server/kinds/tokens/format/token_copy.h"
#include "server/kinds/tokens/format/token_type.h"

namespace millrace {
namespace {

/// Tokens that a thread looks through before it takes others.
constexpr std::uint64_t kTokensAtOnce = std::uint64_t{1} << 22;

/// Some tokens of a file, and the places of marks among them.
struct Stretch {
  std::uint32_t data = 0;
  std::uint64_t first = 0;  // token, in the file
  std::uint64_t tokens = 0;
  std::vector<std::uint32_t> marks = {};  // counted from `first`
};

std::vector<Stretch> StretchesOf(const RawLayout& layout) {
  std::vector<Stretch> stretches;
  for (std::size_t f = 0; f < layout.tokens.size(); ++f) {
    for (std::uint64_t first = 0; first < layout.tokens[f]; first += kTokensAtOnce) {
      stretches.push_back({static_cast<std::uint32_t>(f), first,
                           std::min(kTokensAtOnce, layout.tokens[f] - first)});
    }
  }
  return stretches;
}

/// Calls `use` with the length of each document, in order.
template <class Use>
void ForLengths(std::span<const Stretch> stretches, const RawLayout& layout, bool ends,
                const Use& use) {
  std::size_t next = 0;
  for (std::size_t f = 0; f < layout.tokens.size(); ++f) {
    std::uint64_t begin = 0;  // of the document at hand
    const auto cut = [&](std::uint64_t at) {
      if (at > begin) use(at - begin);
      begin = std::max(begin, at);
    };
    for (; next < stretches.size() && stretches[next].data == f; ++next) {
      for (const std::uint32_t mark : stretches[next].marks) {
        cut(stretches[next].first + mark + (ends ? 1 : 0));
      }
    }
    cut(layout.tokens[f]);
  }
}

/// Lengths as counts, each in the fewest bytes that hold all of them.
Result<MeasuredValues> PackLengths(std::span<const Stretch> stretches, const RawLayout& layout,
                                   bool ends) {
  std::uint64_t documents = 0;
  std::uint64_t longest = 0;
  ForLengths(stretches, layout, ends, [&](std::uint64_t length) {
    ++documents;
    longest = std::max(longest, length);
  });
  // A count is kept plus 1.
  unsigned width = 1;
  while (width < 8 && (longest + 1) >> (8 * width) != 0) width *= 2;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(documents * width);
  ForLengths(stretches, layout, ends, [&](std::uint64_t length) {
    for (unsigned byte = 0; byte < width; ++byte) {
      bytes.push_back(static_cast<std::uint8_t>((length + 1) >> (8 * byte)));
    }
  });
  return MeasuredValues::FromBytes(std::move(bytes), width);
}

Status FillsNot(std::size_t file) {
  return DataLoss(fmt::format("lengths of documents that do not end where file {} ends", file));
}

}  // namespace

std::uint64_t RawLayout::all_tokens() const {
  return std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
}

Result<std::shared_ptr<const MarkedDocuments>> MarkedDocuments::Make(MeasuredValues lengths,
                                                                     const RawLayout& layout) {
  if (lengths.type() != MeasuredType::kCount) return DataLoss("lengths that are no counts");
  const std::shared_ptr<MarkedDocuments> made(new MarkedDocuments(std::move(lengths)));
  const MeasuredValues& values = made->lengths_;
  const std::uint64_t documents = values.size();
  std::uint64_t document = 0;
  std::uint64_t before = 0;
  for (std::size_t f = 0; f < layout.tokens.size(); ++f) {
    made->first_.push_back(document);
    made->base_.push_back(before);
    const std::uint64_t end = before + layout.tokens[f];
    for (; before < end; ++document) {
      if (document == documents) return FillsNot(f);
      if (document % kStride == 0) made->starts_.push_back(before);
      const auto length = static_cast<std::uint64_t>(values.At(document));
      if (length == 0 || length > end - before) return FillsNot(f);
      made->longest_ = std::max(made->longest_, length);
      before += length;
    }
  }
  made->first_.push_back(document);
  if (document != documents) return FillsNot(layout.tokens.size());
  return std::shared_ptr<const MarkedDocuments>(made);
}

std::uint32_t MarkedDocuments::FileOf(std::uint64_t document) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), document);
  return static_cast<std::uint32_t>(after - first_.begin()) - 1;
}

DocumentPlace MarkedDocuments::Find(std::uint64_t document) const {
  DocumentPlace place;
  place.data = FileOf(document);
  place.number = document - first_[place.data];
  std::uint64_t start = starts_[document / kStride];
  for (std::uint64_t i = document / kStride * kStride; i < document; ++i) {
    start += static_cast<std::uint64_t>(lengths_.At(i));
  }
  place.first = start - base_[place.data];
  place.tokens = static_cast<std::uint64_t>(lengths_.At(document));
  return place;
}

ColumnKey MarkedColumn(const Digest128& dataset, const DocumentMark& mark, DType dtype) {
  const std::string text =
      fmt::format("tokens\n{}={}\ndtype={}\n", mark.key(), mark.token, DTypeName(dtype));
  return {dataset, Xxh3(text), "tokens.length"};
}

Result<MeasuredValues> FindMarkedLengths(const DocumentMark& mark, const RawLayout& layout,
                                         unsigned threads, const ReadTokens& read,
                                         const std::function<bool()>& stopped) {
  if (mark.token > LargestTokenOf(layout.dtype)) {
    return InvalidArgument(fmt::format("{}: no file has the token {}: the largest of {} is {}",
                                       mark.key(), mark.token, DTypeName(layout.dtype),
                                       LargestTokenOf(layout.dtype)));
  }
  std::vector<Stretch> stretches = StretchesOf(layout);
  const std::uint64_t width = DTypeSize(layout.dtype);
  Mutex mutex;
  Status failed;
  ParallelFor(threads, stretches.size(), [&](std::size_t i) {
    Stretch& stretch = stretches[i];
    if (stopped()) return;
    const auto bytes = read(stretch.data, layout.begins[stretch.data] + stretch.first * width,
                            stretch.tokens * width);
    if (bytes.ok()) return FindTokens(layout.dtype, *bytes, mark.token, stretch.marks);
    MutexLock lock(mutex);
    if (failed.ok()) failed = bytes.status();
  });
  if (stopped()) return Cancelled("stopped before all documents were found");
  MILLRACE_RETURN_IF_ERROR(failed);
  const bool any = std::any_of(stretches.begin(), stretches.end(),
                               [](const Stretch& stretch) { return !stretch.marks.empty(); });
  if (!any) {
    return InvalidArgument(fmt::format(
        "{}: no file has the token {}: expected one that {} each document; `millrace inspect` "
        "prints tokens of the files",
        mark.key(), mark.token, mark.ends ? "ends" : "begins"));
  }
  return PackLengths(stretches, layout, mark.ends);
}

}  // namespace millrace
