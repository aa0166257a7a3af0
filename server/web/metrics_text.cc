#include "server/web/metrics_text.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace millrace {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
    case MetricType::kGauge:
      break;
  }
  return prometheus::MetricType::Gauge;
}

prometheus::ClientMetric WithLabels(const MetricSpec& spec, const MetricSet::Labels& labels) {
  prometheus::ClientMetric metric;
  for (std::size_t i = 0; i < spec.labels.size(); ++i) {
    metric.label.push_back({spec.labels[i], labels.at(i)});
  }
  return metric;
}

prometheus::ClientMetric::Histogram ToPrometheus(const Histogram& histogram) {
  prometheus::ClientMetric::Histogram out;
  out.sample_count = histogram.count();
  out.sample_sum = histogram.sum();
  std::uint64_t up_to = 0;
  for (std::size_t i = 0; i < Histogram::kBounds; ++i) {
    up_to += histogram.counts()[i];
    out.bucket.push_back({up_to, Histogram::Bounds()[i]});
  }
  return out;
}

prometheus::MetricFamily FamilyOf(const MetricSpec& spec, const MetricSet& metrics) {
  prometheus::MetricFamily family;
  family.name = spec.name;
  family.help = spec.help;
  family.type = TypeOf(spec.type);
  for (const auto& [labels, value] : metrics.values(spec.metric)) {
    prometheus::ClientMetric& metric = family.metric.emplace_back(WithLabels(spec, labels));
    if (spec.type == MetricType::kCounter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }
  for (const auto& [labels, histogram] : metrics.histograms(spec.metric)) {
    family.metric.emplace_back(WithLabels(spec, labels)).histogram = ToPrometheus(histogram);
  }
  return family;
}

}  // namespace

std::string MetricsText(MetricsRoles roles, const MetricSet& metrics) {
  std::vector<prometheus::MetricFamily> families;
  for (const MetricSpec& spec : MetricTable()) {
    const bool here =
        (spec.of_dispatcher() && roles.dispatcher) || (spec.of_worker() && roles.worker);
    if (here) families.push_back(FamilyOf(spec, metrics));
  }
  return static_cast<const prometheus::Serializer&>(prometheus::TextSerializer())
      .Serialize(families);
}

}  // namespace millrace
