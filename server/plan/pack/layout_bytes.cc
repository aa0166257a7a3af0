#include "server/plan/pack/layout_bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "common/base/hash.h"

namespace millrace {
namespace {

constexpr std::string_view kLayoutMagic = "MRLAYOUT";
constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::size_t kLayoutDigest = 16;
constexpr std::size_t kLayoutHeader = 8 + 4 + 16 + 1 + 1 + 8 + 8 + 8 + 6 * 8 + 1;

/// Bytes of a number that holds `largest`.
unsigned LayoutWidth(std::uint64_t largest) {
  for (const unsigned width : {1u, 2u, 4u}) {
    if (largest >> (8 * width) == 0) return width;
  }
  return 8;
}

class LayoutWriter {
 public:
  void Put(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Put(std::uint64_t number, unsigned width) {
    for (unsigned i = 0; i < width; ++i) bytes_.push_back(std::byte(number >> (8 * i) & 0xff));
  }
  void Reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  std::vector<std::byte> Finish() && {
    Put(std::string_view(Xxh3(std::span<const std::byte>(bytes_)).ToBytes()));
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// REQUIRES of all calls: there are enough bytes.
class LayoutBytesReader {
 public:
  explicit LayoutBytesReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::string_view Text(std::size_t size) {
    const auto* const text = reinterpret_cast<const char*>(bytes_.data());
    bytes_ = bytes_.subspan(size);
    return {text, size};
  }
  std::uint64_t Number(unsigned width) {
    std::uint64_t number = 0;
    for (unsigned i = 0; i < width; ++i) {
      number |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
    }
    bytes_ = bytes_.subspan(width);
    return number;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

/// The options as they are written: those that do not count are 0.
PackOptions WrittenOptions(const PackOptions& options) {
  if (options.method == PackMethod::kFit) return options;
  return {options.size, options.method, PackAbove{}, 0};
}

}  // namespace

std::vector<std::byte> EncodePackLayout(const PackLayout& layout, const Digest128& key) {
  const PackOptions options = WrittenOptions(layout.options());
  const PackTotals& totals = layout.totals();
  std::uint64_t largest = 0;
  for (std::uint64_t group = 0; group < layout.groups(); ++group) {
    largest = std::max(largest, layout.CountOf(group));
  }
  const unsigned width = LayoutWidth(largest);
  LayoutWriter writer;
  writer.Reserve(kLayoutHeader + layout.groups() * width + kLayoutDigest);
  writer.Put(kLayoutMagic);
  writer.Put(kLayoutVersion, 4);
  writer.Put(std::string_view(key.ToBytes()));
  writer.Put(static_cast<std::uint64_t>(options.method), 1);
  writer.Put(static_cast<std::uint64_t>(options.above), 1);
  for (const std::uint64_t number :
       {options.size, options.window, layout.documents(), totals.empty, totals.above, totals.rows,
        totals.pieces, totals.elements, totals.left_out}) {
    writer.Put(number, 8);
  }
  writer.Put(width, 1);
  for (std::uint64_t group = 0; group < layout.groups(); ++group) {
    writer.Put(layout.CountOf(group), width);
  }
  return std::move(writer).Finish();
}

Result<PackLayout> DecodePackLayout(std::span<const std::byte> bytes, const Digest128& key,
                                    const PackOptions& options, std::uint64_t documents) {
  if (bytes.size() < kLayoutHeader + kLayoutDigest) {
    return DataLoss(fmt::format("a layout of {} bytes: expected at least {}", bytes.size(),
                                kLayoutHeader + kLayoutDigest));
  }
  const std::span<const std::byte> content = bytes.first(bytes.size() - kLayoutDigest);
  LayoutBytesReader in(content);
  if (in.Text(kLayoutMagic.size()) != kLayoutMagic) {
    return DataLoss("it is no layout: other magic bytes");
  }
  if (const std::uint64_t version = in.Number(4); version != kLayoutVersion) {
    return DataLoss(fmt::format("a layout of version {}: expected {}", version, kLayoutVersion));
  }
  if (std::memcmp(Xxh3(content).ToBytes().data(), bytes.last(kLayoutDigest).data(),
                  kLayoutDigest) != 0) {
    return DataLoss("a layout whose bytes do not have its digest");
  }
  if (in.Text(16) != key.ToBytes()) return DataLoss("the layout of another dataset or pipeline");
  PackOptions written;
  written.method = static_cast<PackMethod>(in.Number(1));
  written.above = static_cast<PackAbove>(in.Number(1));
  written.size = in.Number(8);
  written.window = in.Number(8);
  if (written != WrittenOptions(options)) return DataLoss("a layout of other options of `pack`");
  if (const std::uint64_t found = in.Number(8); found != documents) {
    return DataLoss(fmt::format("a layout of {} documents: expected {}", found, documents));
  }
  PackTotals totals;
  for (std::uint64_t* const number : {&totals.empty, &totals.above, &totals.rows, &totals.pieces,
                                      &totals.elements, &totals.left_out}) {
    *number = in.Number(8);
  }
  const auto width = static_cast<unsigned>(in.Number(1));
  if (!std::has_single_bit(width) || width > 8 || in.left() % width != 0) {
    return DataLoss(
        fmt::format("a layout with {} bytes of numbers of {} bytes each: expected 1, "
                    "2, 4 or 8, and a multiple of it",
                    in.left(), width));
  }
  std::vector<std::uint64_t> counts(in.left() / width);
  std::uint64_t largest = 0;
  for (std::uint64_t& count : counts) {
    count = in.Number(width);
    largest = std::max(largest, count);
  }
  if (LayoutWidth(largest) != width) {
    return DataLoss(
        fmt::format("a layout with numbers of {} bytes: {} would do", width, LayoutWidth(largest)));
  }
  Result<PackLayout> layout = PackLayout::Make(options, documents, totals, std::move(counts));
  if (!layout.ok()) return DataLoss("a layout that is damaged: " + layout.status().message());
  return layout;
}

}  // namespace millrace
