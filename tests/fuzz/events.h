// A sequence of events in an input, as a hostile peer causes them. Each event has a kind, an
// argument (a stream, for example) and bytes, which are usually a serialized message.
//
//   kind (1 byte) · argument (1 byte) · length (2 bytes, little endian) · that many bytes
//
// Mutate works on events rather than bytes: it moves, copies and drops whole events and changes
// single fields of their messages, so that its results can still be decoded.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace millrace::fuzz {

struct Event {
  std::uint8_t kind = 0;
  std::uint8_t argument = 0;
  std::string bytes;
};

/// Events beyond this number are not run, so that each input is fast.
inline constexpr std::size_t kMaxEvents = 100;

std::vector<Event> ReadEvents(const std::uint8_t* data, std::size_t size);
std::string WriteEvents(const std::vector<Event>& events);
inline Event Message(std::uint8_t kind, std::uint8_t argument,
                     const google::protobuf::Message& message) {
  return {kind, argument, message.SerializeAsString()};
}

/// An empty message of the type that an event of this kind brings; null if it brings no message.
std::unique_ptr<google::protobuf::Message> NewMessage(std::uint8_t kind);

}  // namespace millrace::fuzz
