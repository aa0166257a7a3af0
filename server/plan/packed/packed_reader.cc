#include "server/plan/packed/packed_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "common/batch/layout/integer_visit.h"
#include "common/operations/pack_names.h"

namespace millrace {
namespace {

/// About how many elements of documents are in memory at once. Each document is there as a whole.
constexpr std::uint64_t kElementsAtOnce = std::uint64_t{1} << 22;

/// A reader of parts of T; null if documents have to be read as a whole.
std::unique_ptr<ElementReader> ElementsOf(const PackedView& view) {
  if (view.tensors.copied.size() > 1) return nullptr;
  return view.documents->source().NewElementReader(view.tensors.copied.front().from);
}

}  // namespace

Result<std::unique_ptr<PackedReader>> PackedReader::Make(const PackedView& view) {
  const Source& source = view.documents->source();
  auto pool = std::make_unique<BufferPool>();
  MILLRACE_ASSIGN_OR_RETURN(BatchWriter documents,
                            BatchWriter::Create(source.tensors(), source.expand(), *pool));
  return std::unique_ptr<PackedReader>(
      new PackedReader(view, std::move(pool), std::move(documents), ElementsOf(view)));
}

PackedReader::PackedReader(const PackedView& view, std::unique_ptr<BufferPool> pool,
                           BatchWriter documents, std::unique_ptr<ElementReader> elements)
    : view_(view),
      element_bytes_(view.tensors.tensor().row_bytes()),
      around_((view.tensors.before.size() + view.tensors.after.size()) / element_bytes_),
      pool_(std::move(pool)),
      documents_(std::move(documents)),
      whole_(elements == nullptr ? source().NewReader() : nullptr),
      elements_(std::move(elements)) {}

Status PackedReader::Append(std::span<const ExampleId> ids, BatchWriter& writer) {
  while (!ids.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(const std::size_t some, FindParts(ids));
    MILLRACE_RETURN_IF_ERROR(FindDocuments(writer.info().epoch));
    for (const Row& row : rows_) MILLRACE_RETURN_IF_ERROR(AppendRow(row, writer));
    ids = ids.subspan(some);
  }
  return OkStatus();
}

Result<std::vector<RowPiece>> PackedReader::KeptPieces(ExampleId row, std::uint64_t epoch) {
  MILLRACE_RETURN_IF_ERROR(FindParts({&row, 1}).status());
  MILLRACE_RETURN_IF_ERROR(FindDocuments(epoch));
  std::vector<RowPiece> kept;
  for (const Part& part : parts_) {
    if (!BuiltOf(part.document).dropped) kept.push_back({part.document, part.begin, part.length});
  }
  return kept;
}

Result<std::size_t> PackedReader::FindParts(std::span<const ExampleId> ids) {
  rows_.clear();
  parts_.clear();
  std::uint64_t elements = 0;
  std::optional<ExampleId> last;
  for (const ExampleId id : ids) {
    if (elements >= kElementsAtOnce) break;
    pieces_.clear();
    MILLRACE_RETURN_IF_ERROR(view_.rows->AppendPieces(id.value(), pieces_));
    const std::size_t first = parts_.size();
    for (const Piece& piece : pieces_) {
      const ExampleId document = view_.documents->At(piece.document);
      const std::uint64_t own = view_.documents->OwnLengthOf(document);
      if (piece.begin + piece.length > own + around_) {
        return DataLoss(fmt::format(
            "document {}: the column {} says {} elements, and said {} or more when it was packed",
            document.value(), source().columns()[view_.documents->column()].name, own,
            piece.begin + piece.length - around_));
      }
      parts_.push_back({document, piece.begin, piece.length, own});
      // Rows that follow each other often share a document.
      if (elements_ != nullptr) {
        elements += piece.length;
      } else if (document != last) {
        elements += own;
      }
      last = document;
    }
    rows_.push_back({id, first, parts_.size()});
  }
  return rows_.size();
}

Status PackedReader::FindDocuments(std::uint64_t epoch) {
  ids_.clear();
  built_.clear();
  for (const Part& part : parts_) ids_.push_back(part.document);
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  const std::vector<std::uint64_t>& excluded = view_.excluded;
  std::erase_if(ids_, [&](ExampleId id) {
    if (!std::binary_search(excluded.begin(), excluded.end(), id.value())) return false;
    built_.push_back({id, 0, DropReason::kExcluded});
    return true;
  });
  if (elements_ == nullptr) {
    MILLRACE_RETURN_IF_ERROR(BuildDocuments(epoch));
  } else {
    for (const ExampleId id : ids_) built_.push_back({id, 0, elements_->DropOf(id)});
  }
  std::sort(built_.begin(), built_.end(),
            [](const Built& a, const Built& b) { return a.id < b.id; });
  if (elements_ == nullptr) return CheckLengths();
  for (const Part& part : parts_) {
    if (BuiltOf(part.document).dropped) continue;
    const Extents::Extent own = ExtentsOf(part.begin, part.length, part.own).own;
    if (own.count > 0) elements_->WillRead(part.document, own.first, own.count);
  }
  return OkStatus();
}

Status PackedReader::BuildDocuments(std::uint64_t epoch) {
  documents_.Begin({}, epoch, 0, static_cast<std::uint32_t>(ids_.size()));
  MILLRACE_RETURN_IF_ERROR(whole_->Append(ids_, documents_));
  MILLRACE_RETURN_IF_ERROR(documents_.CheckComplete());
  // Those that were dropped are between the others, in the order in which they were wanted.
  const std::vector<DroppedExample>& dropped = documents_.info().dropped;
  std::size_t drop = 0;
  std::uint64_t row = 0;
  for (const ExampleId id : ids_) {
    if (drop < dropped.size() && dropped[drop].id == id) {
      built_.push_back({id, 0, dropped[drop++].reason});
    } else {
      built_.push_back({id, row++, std::nullopt});
    }
  }
  return OkStatus();
}

Status PackedReader::CheckLengths() const {
  const auto length_of = [&](const Built& built, const RowTensors::Copied& copied) {
    return documents_.SplitAt(copied.splits, built.row + 1) -
           documents_.SplitAt(copied.splits, built.row);
  };
  const std::vector<RowTensors::Copied>& copied = view_.tensors.copied;
  const auto path = [&](const RowTensors::Copied& one) {
    return source().tensors()[one.from].path;
  };
  for (const Part& part : parts_) {
    const Built& built = BuiltOf(part.document);
    if (built.dropped) continue;
    const std::uint64_t length = length_of(built, copied.front());
    if (length != part.own) {
      return DataLoss(fmt::format(
          "document {}: {} has {} elements, but the column {} says {}, by which it is packed",
          built.id.value(), path(copied.front()), length,
          source().columns()[view_.documents->column()].name, part.own));
    }
    for (const RowTensors::Copied& other : copied) {
      if (length_of(built, other) == length) continue;
      return DataLoss(fmt::format(
          "document {}: {} has {} elements, and {} has {}; expected as many, because pack.with "
          "names it",
          built.id.value(), path(other), length_of(built, other), path(copied.front()), length));
    }
  }
  return OkStatus();
}

const PackedReader::Built& PackedReader::BuiltOf(ExampleId document) const {
  return *std::lower_bound(built_.begin(), built_.end(), document,
                           [](const Built& built, ExampleId id) { return built.id < id; });
}

Status PackedReader::AppendRow(const Row& row, BatchWriter& writer) {
  const RowTensors& tensors = view_.tensors;
  kept_.clear();
  std::uint64_t length = 0;
  for (std::size_t i = row.first; i < row.end; ++i) {
    if (const auto dropped = BuiltOf(parts_[i].document).dropped) {
      writer.AddLostPieces(*dropped, 1);
      continue;
    }
    kept_.push_back(&parts_[i]);
    length += parts_[i].length;
  }
  if (kept_.empty()) {
    writer.AddDropped(row.id, *BuiltOf(parts_[row.first].document).dropped);
    return OkStatus();
  }
  std::byte* to = writer.PackedRoom(tensors.copied.front().to, length);
  for (const Part* const part : kept_) {
    MILLRACE_RETURN_IF_ERROR(
        CopyElements(*part, ExtentsOf(part->begin, part->length, part->own), to));
    to += part->length * element_bytes_;
  }
  for (std::size_t i = 1; i < tensors.copied.size(); ++i) {
    const std::uint64_t bytes = source().tensors()[tensors.copied[i].from].row_bytes();
    to = writer.PackedRoom(tensors.copied[i].to, length);
    for (const Part* const part : kept_) {
      MILLRACE_RETURN_IF_ERROR(CopyOwn(i, *part, {part->begin, part->length}, to));
      to += part->length * bytes;
    }
  }
  const auto signed_one = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  for (const Part* const part : kept_) {
    writer.AppendOne(tensors.lengths, signed_one(part->length));
    if (tensors.documents) {
      writer.AppendOne(*tensors.documents, signed_one(part->document.value()));
    }
    if (tensors.begins) writer.AppendOne(*tensors.begins, signed_one(part->begin));
    if (!tensors.next) continue;
    MILLRACE_ASSIGN_OR_RETURN(const std::int64_t next, NextOf(*part));
    writer.AppendOne(*tensors.next, next);
  }
  if (tensors.example_id) writer.AppendOne(*tensors.example_id, signed_one(row.id.value()));
  writer.EndExample(row.id);
  return OkStatus();
}

PackedReader::Extents PackedReader::ExtentsOf(std::uint64_t begin, std::uint64_t length,
                                              std::uint64_t own) const {
  const std::uint64_t before = view_.tensors.before.size() / element_bytes_;
  const std::uint64_t end = begin + length;
  // The overlap with elements [first, first + count) of all.
  const auto overlap = [&](std::uint64_t first, std::uint64_t count) {
    const std::uint64_t from = std::max(begin, first);
    const std::uint64_t to = std::min(end, first + count);
    return from < to ? Extents::Extent{from - first, to - from} : Extents::Extent{};
  };
  return {overlap(0, before), overlap(before, own),
          overlap(before + own, view_.tensors.after.size() / element_bytes_)};
}

Status PackedReader::CopyElements(const Part& part, const Extents& extents, std::byte* to) {
  const auto put = [&](const std::vector<std::byte>& from, const Extents::Extent& extent) {
    const std::uint64_t bytes = extent.count * element_bytes_;
    if (bytes > 0) std::memcpy(to, from.data() + extent.first * element_bytes_, bytes);
    to += bytes;
  };
  put(view_.tensors.before, extents.before);
  if (extents.own.count > 0) MILLRACE_RETURN_IF_ERROR(CopyOwn(0, part, extents.own, to));
  to += extents.own.count * element_bytes_;
  put(view_.tensors.after, extents.after);
  return OkStatus();
}

Status PackedReader::CopyOwn(std::size_t copied, const Part& part, const Extents::Extent& extent,
                             std::byte* to) {
  if (elements_ != nullptr) {
    return elements_->Read(part.document, extent.first, extent.count, to);
  }
  const RowTensors::Copied& tensor = view_.tensors.copied[copied];
  const std::uint64_t bytes = source().tensors()[tensor.from].row_bytes();
  const std::uint64_t first =
      documents_.SplitAt(tensor.splits, BuiltOf(part.document).row) + extent.first;
  std::memcpy(to, documents_.values(tensor.from).data() + first * bytes, extent.count * bytes);
  return OkStatus();
}

Result<std::int64_t> PackedReader::NextOf(const Part& part) {
  const std::uint64_t at = part.begin + part.length;
  if (at == part.own + around_) return kNoLabel;
  std::byte value[sizeof(std::int64_t)];
  MILLRACE_RETURN_IF_ERROR(CopyElements(part, ExtentsOf(at, 1, part.own), value));
  return internal::LoadValue(value, view_.tensors.tensor().dtype, 0);
}

}  // namespace millrace
