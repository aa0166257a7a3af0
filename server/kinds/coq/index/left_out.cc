#include "server/kinds/coq/index/left_out.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <unordered_map>

#include <fmt/core.h>

#include "server/files/mapped_file.h"
#include "server/kinds/coq/index/index_freshness.h"

namespace millrace {
namespace {

constexpr std::size_t kMaxReason = 500;
constexpr std::size_t kShownOnTheWay = 3;

// The text cut to at most kMaxReason bytes, never within a character.
std::string Short(const std::string& text) {
  std::string whole = Escaped(text);
  if (whole.size() <= kMaxReason) return whole;
  std::size_t end = kMaxReason - 3;
  while (end > 0 && (static_cast<unsigned char>(whole[end]) & 0xC0) == 0x80) --end;
  return whole.substr(0, end) + "...";
}

std::string NeedsBad(std::span<const std::string> names,
                     const std::vector<std::uint32_t>& nearer_by_place, std::uint32_t place) {
  std::vector<std::uint32_t> way;
  for (std::uint32_t p = nearer_by_place[place]; p != kNoRef; p = nearer_by_place[p]) {
    way.push_back(p);
  }
  std::string text = fmt::format("needs {}, which is bad", names[way.back()]);
  way.pop_back();
  for (std::size_t i = 0; i < std::min(way.size(), kShownOnTheWay); ++i) {
    text += (i == 0 ? ", by way of " : ", ") + names[way[i]];
  }
  if (way.size() > kShownOnTheWay) text += fmt::format(" and {} more", way.size() - kShownOnTheWay);
  return text;
}

}  // namespace

std::vector<LeftOutPlace> FindLeftOut(const FileNeeds& files,
                                      const std::map<std::uint32_t, BadReason>& bad) {
  const auto count = static_cast<std::uint32_t>(files.names.size());
  std::vector<std::vector<std::uint32_t>> needed_by(count);
  for (std::uint32_t f = 0; f < count; ++f) {
    for (const std::uint32_t d : files.dependencies[f]) {
      if (d < count && d != f) needed_by[d].push_back(f);
    }
  }
  // Searches breadth first, so the first path found leads to the nearest bad file.
  std::vector<bool> left_out(count, false);
  std::vector<std::uint32_t> nearer(count, kNoRef);
  std::deque<std::uint32_t> reached;
  for (const auto& [place, because] : bad) {
    left_out[place] = true;
    reached.push_back(place);
  }
  for (; !reached.empty(); reached.pop_front()) {
    for (const std::uint32_t f : needed_by[reached.front()]) {
      if (left_out[f]) continue;
      left_out[f] = true;
      nearer[f] = reached.front();
      reached.push_back(f);
    }
  }
  std::vector<LeftOutPlace> found;
  for (std::uint32_t f = 0; f < count; ++f) {
    if (!left_out[f]) continue;
    LeftOutPlace& one = found.emplace_back(LeftOutPlace{.place = f, .because = {}});
    if (const auto itself = bad.find(f); itself != bad.end()) {
      one.because = {Short(itself->second.reason), itself->second.why};
    } else {
      one.because = {Short(NeedsBad(files.names, nearer, f)), LeftOutWhy::kNeedsBad};
    }
  }
  return found;
}

std::string WhyLeftOutIsStale(const std::filesystem::path& dir, const DatasetIndex& index,
                              const DatasetListing& listing, bool skip_bad) {
  if (index.left_out().empty()) return {};
  if (!skip_bad) {
    return fmt::format("it leaves out {} files, which was not asked for", index.left_out().size());
  }
  if (index.host_id() != HostId()) return "another host decided which files it leaves out";
  std::unordered_map<std::string_view, const FileIdentity*> now;
  for (std::size_t i = 0; i < listing.names.size(); ++i) {
    now.emplace(listing.names[i], &listing.identities[i]);
  }
  const FileIdentity unknown;
  for (const BadFile& file : listing.bad) now.emplace(file.name, &unknown);
  for (const LeftOutRecord& record : index.left_out()) {
    const std::string_view name = index.left_out_name(record);
    const auto found = now.find(name);
    if (found == now.end()) return fmt::format("{}, which it leaves out, is gone", Escaped(name));
    const FileIdentity& identity = *found->second;
    if (identity.size != record.size || !SameHostRecord(HostRecord(identity), record.host)) {
      return fmt::format("{}, which it leaves out, has changed", Escaped(name));
    }
    if (record.why == static_cast<std::uint32_t>(LeftOutWhy::kUnreadable) &&
        &identity != &unknown && MappedFile::Open(dir / name, AccessPattern::kRandom).ok()) {
      return fmt::format("{}, which it leaves out, can be read now", Escaped(name));
    }
  }
  return {};
}

}  // namespace millrace
