#include "tests/fuzz/events.h"

#include <google/protobuf/stubs/logging.h>

#include "tests/fuzz/input.h"

namespace millrace::fuzz {

std::vector<Event> ReadEvents(const std::uint8_t* data, std::size_t size) {
  // Otherwise protobuf would log every text that is not valid UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  Input in(data, size);
  std::vector<Event> events;
  while (!in.empty() && events.size() < kMaxEvents) {
    Event event;
    event.kind = in.Byte();
    event.argument = in.Byte();
    event.bytes = in.Take(in.Number(2));
    events.push_back(std::move(event));
  }
  return events;
}

std::string WriteEvents(const std::vector<Event>& events) {
  std::string bytes;
  for (const Event& event : events) {
    const std::string_view kept = std::string_view(event.bytes).substr(0, 0xffff);
    bytes += static_cast<char>(event.kind);
    bytes += static_cast<char>(event.argument);
    bytes += NumberBytes(kept.size(), 2);
    bytes += kept;
  }
  return bytes;
}

}  // namespace millrace::fuzz
