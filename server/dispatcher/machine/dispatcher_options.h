// Times and limits of a dispatcher. The defaults are the protocol's values; tests shorten some.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/time.h"

namespace millrace {

struct DispatcherOptions {
  std::string version;             // for status
  std::string address;             // for status
  std::string backend = "sqlite";  // the store, for metrics

  Duration tick = std::chrono::milliseconds(50);  // between two ticks
  Duration late_tick = std::chrono::seconds(1);   // a gap above tick + late_tick is our own pause
  Duration heartbeat = std::chrono::seconds(1);   // for a round of heartbeats, one for each stream
  Duration session_timeout =
      std::chrono::seconds(10);  // a session ends this long after its last message
  Duration attach_timeout =
      std::chrono::seconds(60);                       // how long to wait for a job that others hold
  Duration hello_timeout = std::chrono::seconds(10);  // for a stream's first message
  Duration worker_silence = std::chrono::seconds(3);  // a worker silent this long leaves all lists
  Duration worker_timeout = std::chrono::seconds(60);  // a worker silent this long is forgotten
  Duration list_every =
      std::chrono::milliseconds(250);  // a consumer gets a changed list at most so often
  Duration plan_linger =
      std::chrono::minutes(10);              // workers keep a plan this long after its last job
  Duration retry = std::chrono::seconds(2);  // between two tries of a store or compiler

  std::uint32_t max_streams = 20'000;
  std::uint32_t max_sessions = 20'000;      // live and waiting
  std::uint32_t max_sessions_of_rank = 64;  // live and waiting
  std::uint32_t max_jobs = 4096;            // jobs that have sessions
  std::uint32_t max_workers = 10'000;
  std::uint32_t max_plans = 64;
  std::uint32_t max_pipeline_bytes = 65'536;
  std::uint32_t max_records = 1000;  // ended jobs kept in memory

  double reserve = 0.2;  // the part by which requested workers exceed the loops' demand
};

}  // namespace millrace
