#include "server/daemon/metrics_exporter.h"

#include <exception>
#include <utility>
#include <vector>

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include "common/transport/grpc/listen_check.h"

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

class Page final : public prometheus::Collectable {
 public:
  Page(MetricsExporter::Roles roles, MetricsExporter::Collect collect)
      : roles_(roles), collect_(std::move(collect)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    MetricSet metrics;
    collect_(metrics);
    std::vector<prometheus::MetricFamily> families;
    for (const MetricSpec& spec : MetricTable()) {
      const bool here =
          (spec.of_dispatcher && roles_.dispatcher) || (spec.of_worker && roles_.worker);
      if (here) families.push_back(FamilyOf(spec, metrics));
    }
    return families;
  }

 private:
  static prometheus::MetricFamily FamilyOf(const MetricSpec& spec, const MetricSet& metrics) {
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

  const MetricsExporter::Roles roles_;
  const MetricsExporter::Collect collect_;
};

class HttpExporter final : public MetricsExporter {
 public:
  HttpExporter(const std::string& listen, std::shared_ptr<Page> page)
      : page_(std::move(page)), exposer_(Options(listen)) {
    exposer_.RegisterCollectable(page_);
  }
  int port() const override { return exposer_.GetListeningPorts().at(0); }

 private:
  /// Of civetweb. A request that does not come to its end holds a thread until its time is over.
  static std::vector<std::string> Options(const std::string& listen) {
    return {"listening_ports", listen, "num_threads", "16", "request_timeout_ms", "1000"};
  }

  const std::shared_ptr<Page> page_;
  prometheus::Exposer exposer_;
};

}  // namespace

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& listen,
                                                                Roles roles, Collect collect) {
  MILLRACE_RETURN_IF_ERROR(CheckListen(listen));
  try {
    return std::unique_ptr<MetricsExporter>(
        std::make_unique<HttpExporter>(listen, std::make_shared<Page>(roles, std::move(collect))));
  } catch (const std::exception& e) {
    return AlreadyExists("cannot listen on " + listen + " for metrics: " + e.what());
  }
}

}  // namespace millrace
