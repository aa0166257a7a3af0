#include "server/dispatcher/machine/desired_workers.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "common/base/protocol_limits.h"

namespace millrace {
namespace {

/// A rate or need with three digits, without an exponent where people read it.
std::string Digits(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string CountOfWorkers(std::uint32_t workers) {
  return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
}

double NeedOf(double demand, double reserve, double worker_rate) {
  return demand * (1 + reserve) / worker_rate;
}

/// Sums of needs that differ by less than this part are the same.
constexpr double kRounding = 1e-9;

/// Why the figure is not the whole number that covers `wanted`; empty if it is. `wanted` is the
/// need, at most what may be asked for.
std::string WhyOther(std::uint32_t figure, double wanted) {
  const std::uint32_t covers = WholeWorkers(wanted);
  if (figure == covers) return "";
  const bool near = figure < covers ? wanted <= figure * (1 + SteadyFigure::kMargin)
                                    : wanted * (1 + SteadyFigure::kMargin) > figure - 1.0;
  if (near && figure < covers) {
    return fmt::format(", more only above {}", Digits(figure * (1 + SteadyFigure::kMargin)));
  }
  if (near) {
    return fmt::format(", fewer only up to {}", Digits((figure - 1) / (1 + SteadyFigure::kMargin)));
  }
  return figure < covers ? fmt::format(", and {} if that lasts {:.0f} s", covers,
                                       ToSeconds(SteadyFigure::kRiseAfter))
                         : fmt::format(", until fewer have sufficed for {:.0f} minutes",
                                       ToSeconds(SteadyFigure::kFallAfter) / 60);
}

template <class Map>
void EraseUnseen(Map& map, std::uint64_t looks) {
  std::erase_if(map, [looks](const auto& entry) { return entry.second.seen != looks; });
}

}  // namespace

std::string ArithmeticOf(const DesiredFigure& figure) {
  std::string text;
  std::string why;
  if (figure.settling) {
    text = "workers may still come back to this dispatcher";
  } else if (!figure.worker_rate) {
    text = "no worker has built a batch yet";
  } else if (!figure.demand) {
    text = "no loop has told how long its steps take yet";
  } else {
    const double all = NeedOf(*figure.demand, figure.reserve, *figure.worker_rate);
    const double need = std::min(all, figure.need.value_or(all));
    const std::uint32_t most = MostWorkers(figure.present);
    text = fmt::format("{} batches/s x {:.3g} / {} a worker = {}", Digits(*figure.demand),
                       1 + figure.reserve, Digits(*figure.worker_rate), Digits(all));
    if (need < all * (1 - kRounding)) {
      text += fmt::format(", {} with at most {} a consumer", Digits(need), kMaxListMembers);
    }
    if (need > most) text += fmt::format(", at most {} for now", most);
    why = WhyOther(figure.workers, std::min<double>(need, most));
  }
  const std::string there = figure.present == 0 ? "none is there"
                                                : fmt::format("{} {} there", figure.present,
                                                              figure.present == 1 ? "is" : "are");
  return fmt::format("{}: {}{}; {}", text, CountOfWorkers(figure.workers), why, there);
}

void DesiredWorkers::Update(Time now, const FleetSnapshot& snapshot) {
  ++looks_;
  if (!first_look_) first_look_ = now;
  const std::uint32_t present = LookAtSuppliers(snapshot);
  UpdateLoops(snapshot);

  std::optional<double>& all = fleet_.figure.demand;
  std::optional<double>& need = fleet_.figure.need;
  all = need = jobs_.empty() ? std::optional(0.0) : std::nullopt;
  for (auto& [name, job] : jobs_) {
    if (job.figure.demand) all = all.value_or(0) + *job.figure.demand;
    if (job.figure.need) need = need.value_or(0) + *job.figure.need;
    Reconcile(job, now, present);
  }
  Reconcile(fleet_, now, present);
}

std::uint32_t DesiredWorkers::LookAtSuppliers(const FleetSnapshot& snapshot) {
  std::uint32_t present = 0;
  std::uint32_t known = 0;
  double rates = 0;
  for (const FleetSnapshot::Supplier& seen : snapshot.suppliers) {
    Supplier& supplier = suppliers_[seen.worker];
    supplier.seen = looks_;
    supplier.rate.Add(seen.totals);
    if (!seen.present) continue;
    ++present;
    if (const std::optional<double> rate = supplier.rate.batches_per_second()) {
      ++known;
      rates += *rate;
    }
  }
  EraseUnseen(suppliers_, looks_);
  if (known > 0) worker_rate_ = rates / known;
  return present;
}

void DesiredWorkers::UpdateLoops(const FleetSnapshot& snapshot) {
  for (const FleetSnapshot::Loop& seen : snapshot.loops) {
    auto job = jobs_.find(seen.job);
    if (job == jobs_.end()) job = jobs_.emplace(seen.job, Watched()).first;
    DesiredFigure& figure = job->second.figure;
    if (std::exchange(job->second.seen, looks_) != looks_) {
      figure.demand.reset();
      figure.need.reset();
    }
    if (!seen.totals) continue;
    Loop& loop = loops_[seen.session];
    loop.seen = looks_;
    loop.demand.Add(*seen.totals);
    const std::optional<double> demand = loop.demand.batches_per_second();
    if (!demand) continue;
    figure.demand = figure.demand.value_or(0) + *demand;
    if (!worker_rate_) continue;
    const double need = NeedOf(*demand, reserve_, *worker_rate_);
    figure.need = figure.need.value_or(0) + std::min<double>(need, kMaxListMembers);
  }
  EraseUnseen(jobs_, looks_);
  EraseUnseen(loops_, looks_);
}

void DesiredWorkers::Reconcile(Watched& watched, Time now, std::uint32_t present) const {
  DesiredFigure& figure = watched.figure;
  figure.present = present;
  figure.worker_rate = worker_rate_;
  figure.reserve = reserve_;
  figure.settling = now - *first_look_ < SteadyFigure::kRiseAfter;
  watched.steady.Update(now, worker_rate_ ? figure.need : std::nullopt, present);
  figure.workers = watched.steady.workers();
}

const DesiredFigure* DesiredWorkers::Find(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second.figure;
}

std::map<std::string, DesiredFigure> DesiredWorkers::Jobs() const {
  std::map<std::string, DesiredFigure> figures;
  for (const auto& [name, job] : jobs_) figures.emplace(name, job.figure);
  return figures;
}

}  // namespace millrace
