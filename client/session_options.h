// The options of a session, which say how to ask for batches. They are declared once for C++, for
// `millrace consume` and for Python.
//
// SessionOptions holds the values and their defaults. session_option_table.h has a row for each.
//
// Thread-compatible value type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/batch/layout/layout.h"

namespace millrace {

class Logger;

struct SessionOptions {
  /// host:port of the dispatcher's control port. If there are several dispatchers: all of them,
  /// separated by commas.
  std::string address = "127.0.0.1:7700";
  /// Folder with ca.crt, and tls.crt and tls.key or token. Empty: the folder in the environment
  /// variable MILLRACE_TLS, or no TLS if it is unset.
  std::string tls;
  std::string job;
  std::string pipeline;                // the YAML text; if empty, pipeline_file has it
  std::string pipeline_file;           // a file with the YAML text
  std::string variant;                 // name of a variant of the pipeline; empty: no variant
  std::vector<std::string> overrides;  // key=value, applied in order
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t replica = 0;  // replicas of one rank read the same batches
  std::uint32_t epochs = 0;   // how many to read, counting the one that it starts in; 0: no end
  DType index_dtype = DType::kInt32;  // or kInt64
  /// How many bytes of packed batches are received ahead of the loop. The next batch always has its
  /// own place beyond this. With `tune`, this is the limit, and fewer are received if they keep the
  /// loop from waiting.
  std::uint64_t prefetch_bytes = std::uint64_t{256} << 20;
  bool tune = true;
  /// The device that batches are delivered to: "host", or "cuda:N" for a GPU of this machine.
  std::string device = "host";
  /// How many batches are expanded on the device ahead of the loop, and how many bytes of them. The
  /// next batch always has its own place beyond this number of bytes. With 0 batches, each is
  /// expanded when the loop asks for it; this takes longer and needs the least memory.
  std::uint64_t expanded_batches = 2;
  std::uint64_t expanded_bytes = std::uint64_t{1} << 30;
  std::string cursor;      // where to start, from Session::cursor; empty: the very beginning
  bool any_start = false;  // whether ranks may start at different cursors
  /// The job's priority, 1 to 1,000. Workers divide their time between waiting jobs in proportion
  /// to it.
  std::uint32_t priority = 1;
  bool packed = false;  // whether batches also keep their packed form
  /// The number of parts in which each batch is delivered (Batch::Part), for training loops that
  /// accumulate gradients. A part consists of whole examples and counts its nodes from 0.
  std::uint32_t micro = 1;
  /// Whether batches from workers on this host are read in shared memory, if that is possible.
  bool shared_memory = true;
  /// How workers compress batches on their way over a network: "zstd", "lz4" or "off". This helps
  /// on thin links only: it costs time of the workers and of this process.
  std::string compression = "off";
  /// Whether malloc keeps freed memory (KeepFreedMemory). This applies to the whole process, and
  /// halves the cost of received messages.
  bool keep_freed_memory = true;
  double connect_timeout_seconds = 30;  // until a dispatcher answers at all
  double attach_timeout_seconds = 0;    // until spec() is known; 0: the dispatcher sets the limit
  double read_timeout_seconds = 0;      // until a batch comes that the loop waits for; 0: no limit
  std::shared_ptr<Logger> logger;       // for events, never one per batch; null: no log
};

/// InvalidArgument for the first value that is out of its bounds, and for a rank that is not less
/// than the world size.
Status CheckSessionOptions(const SessionOptions& options);

/// The pipeline's text, which is given directly or in a file. InvalidArgument unless exactly one of
/// them is given. NotFound for a file that cannot be read.
Result<std::string> ReadPipelineText(const SessionOptions& options);

}  // namespace millrace
