// Job records for tests of stores.
#pragma once

#include <cstdint>
#include <string>

#include "millrace/v1/journal.pb.h"

namespace millrace::test {

constexpr std::int64_t kNow = 1'800'000'000;

/// A live job's record; its length depends on `pipeline_bytes`.
inline v1::JobRecord Record(const std::string& name, std::size_t pipeline_bytes = 12) {
  v1::JobRecord record;
  record.set_name(name);
  record.set_fingerprint("f");
  record.set_world_size(4);
  record.mutable_pipeline()->set_yaml(std::string(pipeline_bytes, '#'));
  return record;
}

inline v1::JobRecord Ended(const std::string& name, std::int64_t when) {
  v1::JobRecord record = Record(name);
  record.set_ended(true);
  record.set_ended_unix_seconds(when);
  return record;
}

}  // namespace millrace::test
