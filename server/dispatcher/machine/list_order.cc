#include "server/dispatcher/machine/list_order.h"

#include <iterator>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "common/base/hash.h"
#include "server/dispatcher/machine/hello_check.h"

namespace millrace {

bool operator<(const ListPlace& a, const ListPlace& b) {
  return std::tie(b.own_host, b.hash, a.worker) < std::tie(a.own_host, a.hash, b.worker);
}

ListOrder::ListOrder(const SessionFacts& session) : host_id_(session.hello.host_id()) {
  const std::string& fingerprint = session.plan->fingerprint;
  prefix_ =
      session.plan->facts->window_units() > 0
          ? fmt::format("{}/", fingerprint)
          : fmt::format("{}/{}/{}/", fingerprint, session.hello.world_size(), session.hello.rank());
}

ListPlace ListOrder::Of(const Worker& worker) const {
  fmt::memory_buffer text;
  const Number number = worker.id.number();
  fmt::format_to(std::back_inserter(text), "{}{}.{}", prefix_, number.term, number.n);
  return {SameHost(worker.report.self().host_id(), host_id_),
          Xxh3_64(std::as_bytes(std::span(text.data(), text.size()))), worker.id};
}

}  // namespace millrace
