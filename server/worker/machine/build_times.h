// How long a worker takes to build a batch of each plan, and how large the batches are.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace millrace {

/// Seconds of one thread for a batch. It follows builds slowly, except that two slower or faster
/// batches in a row change it at once.
class BuildTime {
 public:
  void Add(double seconds);
  /// 0 before the first build.
  double seconds() const { return mean_; }

 private:
  double mean_ = 0;
  double last_ = 0;
};

/// The builds of one plan.
struct PlanBuilds {
  BuildTime time;
  double bytes = 0;  // of a batch, in the mean; 0 before the first build
  std::size_t rows = 0;  // of the last batch that was built in slices
};

class BuildTimes {
 public:
  void Add(const std::string& plan, double seconds, std::uint64_t bytes);
  void SetRows(const std::string& plan, std::size_t rows) { plans_[plan].rows = rows; }
  void Forget(const std::string& plan) { plans_.erase(plan); }
  /// The builds of the plan; zeros before the first build.
  PlanBuilds Of(const std::string& plan) const;
  /// The builds of all plans together.
  const PlanBuilds& all() const { return all_; }

 private:
  std::map<std::string, PlanBuilds> plans_;  // by fingerprint
  PlanBuilds all_;
};

}  // namespace millrace
