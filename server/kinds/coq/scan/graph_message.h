// The Cap'n Proto side of a GraphFile. Only code that reads definitions and proofs includes this.
//
// Every access through a reader may throw if a file is damaged. So access it only inside
// CatchCapnp.
#pragma once

#include <exception>
#include <new>
#include <string>

#include <capnp/serialize.h>
#include <kj/exception.h>

#include "common/base/result.h"
#include "millrace/v1/dataset.capnp.h"

namespace millrace {

/// An open message. Not thread-safe: every read counts against the traversal limit.
struct GraphMessage {
  GraphMessage(kj::ArrayPtr<const capnp::word> words, capnp::ReaderOptions options)
      : reader(words, options) {}

  capnp::FlatArrayMessageReader reader;
  schema::Dataset::Reader root;
  capnp::List<schema::Graph::Node>::Reader nodes;
};

/// Runs `body`, which returns a Status. Exceptions of Cap'n Proto or the allocator become a Status
/// too.
template <class Body>
Status CatchCapnp(const Body& body) {
  try {
    return body();
  } catch (const kj::Exception& e) {
    return DataLoss(std::string("the message is damaged: ") + e.getDescription().cStr());
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory");
  } catch (const std::exception& e) {
    return DataLoss(std::string("the message is damaged: ") + e.what());
  }
}

}  // namespace millrace
