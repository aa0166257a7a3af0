#include "tests/sim/counts.h"

#include <algorithm>

#include <fmt/core.h>

namespace millrace::sim {

void Counts::Add(const Counts& more) {
  events += more.events;
  batches += more.batches;
  welcomes += more.welcomes;
  taken_over += more.taken_over;
  refused += more.refused;
  relaunches += more.relaunches;
  moved += more.moved;
  taken_back += more.taken_back;
  copies += more.copies;
  duplicates += more.duplicates;
  shared += more.shared;
  mismatches += more.mismatches;
  terms += more.terms;
  crashes_between += more.crashes_between;
  lost_data += more.lost_data;
  damaged_plans += more.damaged_plans;
  reasons_told += more.reasons_told;
  ranges += more.ranges;
  columns += more.columns;
  code_failures += more.code_failures;
  failed_jobs += more.failed_jobs;
  longest_wait = std::max(longest_wait, more.longest_wait);
}

std::string Counts::ToString() const {
  return fmt::format(
      "{} events, {} batches taken, {} sessions admitted, {} taken over, {} refused, {} "
      "relaunches, {} terms, {} deaths between two actions, {} asks moved, {} taken back, {} copies, "
      "{} duplicate batches, {} shared, {} alarms, {} ended for want of data, {} plans that a "
      "dispatcher's data were too damaged for, {} told that no worker has their dataset, {} columns "
      "measured in {} ranges, {} builds that a plugin failed, {} jobs that ended so, longest wait "
      "{:.1f} s",
      events, batches, welcomes, taken_over, refused, relaunches, terms, crashes_between, moved,
      taken_back, copies, duplicates, shared, mismatches, lost_data, damaged_plans, reasons_told,
      columns, ranges, code_failures, failed_jobs, longest_wait);
}

}  // namespace millrace::sim
