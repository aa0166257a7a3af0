#include "server/dispatcher/machine/steady_figure.h"

#include <algorithm>
#include <cmath>

namespace millrace {
namespace {

/// Rounding errors of a need are below this part of a worker.
constexpr double kRoundingError = 1e-6;

}  // namespace

std::uint32_t MostWorkers(std::uint32_t present) { return std::max(1u, 2 * present); }

std::uint32_t WholeWorkers(double need) {
  return std::max(1u, static_cast<std::uint32_t>(std::ceil(need - kRoundingError)));
}

void SteadyFigure::Update(Time now, std::optional<double> need, std::uint32_t present) {
  if (!first_) first_ = now;
  if (*first_ == now || now - last_ > kLongestGap) {
    watched_ = now;
    least_.Clear();
    most_.Clear();
  }
  last_ = now;
  // Workers may come back to a new dispatcher after the consumers.
  if (now - *first_ < kRiseAfter) workers_ = std::max(workers_, present);

  // The limit does not end a wait: workers that died are asked for until fewer have sufficed.
  known_ = known_ || need.has_value();
  const double otherwise = known_ ? workers_ : present;
  const double wanted = std::min<double>(need.value_or(otherwise), MostWorkers(present));
  least_.Add(now, wanted);
  most_.Add(now, wanted);
  const double figure = workers_;
  if (now - watched_ >= kRiseAfter && least_.value() > figure * (1 + kMargin)) {
    workers_ = WholeWorkers(least_.value());
  } else if (now - watched_ >= kFallAfter && most_.value() * (1 + kMargin) <= figure - 1) {
    workers_ = WholeWorkers(most_.value());
  }
}

}  // namespace millrace
