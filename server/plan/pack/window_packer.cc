#include "server/plan/pack/window_packer.h"

#include <utility>

#include "server/plan/pack/document_cut.h"

namespace millrace {

WindowPacker::WindowPacker(const PackOptions& options)
    : size_(static_cast<std::uint32_t>(options.size)),
      above_(options.above),
      lengths_(size_),
      first_(size_, kNone),
      heaps_(size_) {}

std::shared_ptr<const PackedWindow> WindowPacker::Pack(std::uint64_t first_document,
                                                       std::span<const std::uint64_t> lengths) {
  Sort(lengths);
  Place();
  return Number(first_document, lengths);
}

void WindowPacker::Sort(std::span<const std::uint64_t> lengths) {
  rest_.resize(lengths.size());
  next_.resize(lengths.size());
  row_.resize(lengths.size());
  placed_ = 0;
  // Each is put before those of its list, so that the lists ascend.
  for (std::size_t i = lengths.size(); i-- > 0;) {
    const std::uint32_t rest = CutDocument(lengths[i], size_, above_).rest;
    rest_[i] = rest;
    if (rest == 0) continue;
    std::uint32_t& first = first_[rest];
    if (first == kNone) lengths_.Insert(size_ - rest);
    next_[i] = first;
    first = static_cast<std::uint32_t>(i);
    ++placed_;
  }
}

void WindowPacker::Place() {
  heaps_.Reset(placed_);
  pieces_.clear();
  for (std::uint32_t key = lengths_.Next(0); key != kNone; key = lengths_.Next(key)) {
    lengths_.Erase(key);
    const std::uint32_t length = size_ - key;
    PlaceList(length, std::exchange(first_[length], kNone));
  }
}

void WindowPacker::PlaceList(std::uint32_t length, std::uint32_t document) {
  std::uint32_t room = heaps_.LeastRoom(length);
  while (document != kNone) {
    std::uint32_t row = 0;
    std::uint32_t left = room;
    if (room == kNone) {
      row = static_cast<std::uint32_t>(pieces_.size());
      pieces_.push_back(0);
      left = size_;
    } else {
      row = heaps_.TakeFirst(room);
    }
    // A row that gets a piece has the least room of all after that, as long as it is enough.
    do {
      row_[document] = row;
      ++pieces_[row];
      left -= length;
      document = next_[document];
    } while (left >= length && document != kNone);
    if (left > 0) heaps_.Add(left, row);
    // No row is left with room for another piece of this length but those that had it before.
    if (room != kNone && !heaps_.Has(room)) room = heaps_.LeastRoom(length);
  }
}

std::shared_ptr<const PackedWindow> WindowPacker::Number(std::uint64_t first_document,
                                                         std::span<const std::uint64_t> lengths) {
  PackedWindow::Rows rows;
  rows.first_document = first_document;
  rows.size = size_;
  rows.begins.reserve(pieces_.size() + 1);
  rows.documents.resize(placed_);
  rows.lengths.resize(placed_);
  place_.assign(pieces_.size(), kNone);
  std::uint32_t begin = 0;  // of the next row
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto document = static_cast<std::uint32_t>(i);
    // The full pieces of a document have lower numbers than its other one.
    if (lengths[i] >= size_) {
      const std::uint64_t full = CutDocument(lengths[i], size_, above_).full;
      if (full > 0) {
        rows.runs.push_back({document, static_cast<std::uint32_t>(rows.begins.size()), rows.full});
      }
      rows.full += full;
    }
    if (rest_[i] == 0) continue;
    const std::uint32_t row = row_[i];
    std::uint32_t place = place_[row];
    if (place == kNone) {
      rows.begins.push_back(begin);
      place = begin;
      begin += pieces_[row];
    }
    rows.documents[place] = document;
    rows.lengths[place] = rest_[i];
    place_[row] = place + 1;
  }
  rows.begins.push_back(begin);
  rows.runs.shrink_to_fit();
  return std::make_shared<const PackedWindow>(std::move(rows));
}

}  // namespace millrace
