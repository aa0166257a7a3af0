// libFuzzer's custom mutator for inputs that are events.
#include <google/protobuf/descriptor.h>

#include <cstring>
#include <random>
#include <utility>

#include "tests/fuzz/events.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace millrace::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Random = std::minstd_rand;

std::size_t Below(std::size_t n, Random& random) { return n == 0 ? 0 : random() % n; }

std::uint64_t AnyNumber(std::uint64_t now, Random& random) {
  switch (Below(8, random)) {
    case 0:
      return now + 1;
    case 1:
      return now - 1;
    case 2:
      return Below(6, random);
    case 3:
      return std::uint64_t{1} << Below(64, random);
    case 4:
      return (std::uint64_t{1} << Below(64, random)) - 1;
    case 5:
      return ~std::uint64_t{0} - Below(3, random);
    case 6:
      return now ^ std::uint64_t{1} << Below(64, random);
    default:
      return (std::uint64_t{random()} << 32 | random()) >> Below(64, random);
  }
}

std::string AnyText(std::string text, Random& random) {
  if (Below(6, random) == 0) return "";
  const std::size_t size = text.size();
  text.resize(size + 16);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
  return text;
}

double AnyReal(double now, Random& random) {
  switch (Below(6, random)) {
    case 0:
      return 0;
    case 1:
      return -now;
    case 2:
      return 1e300 * now;
    case 3:
      return std::numeric_limits<double>::quiet_NaN();
    case 4:
      return std::numeric_limits<double>::infinity();
    default:
      return now + 1;
  }
}

/// Sets the field to another value; if it is repeated, sets its element `at`.
void MutateValue(Message& message, const FieldDescriptor* field, int at, Random& random) {
  const Reflection* r = message.GetReflection();
  const bool repeated = field->is_repeated();
#define MILLRACE_FUZZ_NUMBER(Type, Cast)                                                     \
  {                                                                                          \
    const auto now =                                                                         \
        repeated ? r->GetRepeated##Type(message, field, at) : r->Get##Type(message, field);  \
    const auto next = static_cast<Cast>(AnyNumber(static_cast<std::uint64_t>(now), random)); \
    if (repeated) {                                                                          \
      r->SetRepeated##Type(&message, field, at, next);                                       \
    } else {                                                                                 \
      r->Set##Type(&message, field, next);                                                   \
    }                                                                                        \
    return;                                                                                  \
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      MILLRACE_FUZZ_NUMBER(Int32, std::int32_t)
    case FieldDescriptor::CPPTYPE_INT64:
      MILLRACE_FUZZ_NUMBER(Int64, std::int64_t)
    case FieldDescriptor::CPPTYPE_UINT32:
      MILLRACE_FUZZ_NUMBER(UInt32, std::uint32_t)
    case FieldDescriptor::CPPTYPE_UINT64:
      MILLRACE_FUZZ_NUMBER(UInt64, std::uint64_t)
    case FieldDescriptor::CPPTYPE_ENUM:
      MILLRACE_FUZZ_NUMBER(EnumValue, int)
    case FieldDescriptor::CPPTYPE_BOOL:
      if (repeated) return r->SetRepeatedBool(&message, field, at, Below(2, random) != 0);
      return r->SetBool(&message, field, !r->GetBool(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (repeated) {
        const double now = r->GetRepeatedDouble(message, field, at);
        return r->SetRepeatedDouble(&message, field, at, AnyReal(now, random));
      }
      return r->SetDouble(&message, field, AnyReal(r->GetDouble(message, field), random));
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated) {
        const std::string now = r->GetRepeatedString(message, field, at);
        return r->SetRepeatedString(&message, field, at, AnyText(now, random));
      }
      return r->SetString(&message, field, AnyText(r->GetString(message, field), random));
    default:
      return;  // the protocol has no floating-point fields
  }
#undef MILLRACE_FUZZ_NUMBER
}

void AddElement(Message& message, const FieldDescriptor* field, Random& random) {
  const Reflection* r = message.GetReflection();
  const int size = r->FieldSize(message, field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* added = r->AddMessage(&message, field);
      if (size > 0) {
        added->CopyFrom(
            r->GetRepeatedMessage(message, field, static_cast<int>(Below(size, random))));
      }
      return;
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return r->AddInt32(&message, field, static_cast<std::int32_t>(AnyNumber(0, random)));
    case FieldDescriptor::CPPTYPE_INT64:
      return r->AddInt64(&message, field, static_cast<std::int64_t>(AnyNumber(0, random)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return r->AddUInt32(&message, field, static_cast<std::uint32_t>(AnyNumber(0, random)));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r->AddUInt64(&message, field, AnyNumber(0, random));
    case FieldDescriptor::CPPTYPE_STRING:
      return r->AddString(&message, field, AnyText("", random));
    default:
      return;
  }
}

void MutateMessage(Message& message, Random& random, int depth) {
  const auto* type = message.GetDescriptor();
  if (type->field_count() == 0) return;
  const Reflection* r = message.GetReflection();
  // Fields that are set are preferred, because they matter more.
  std::vector<const FieldDescriptor*> set;
  r->ListFields(message, &set);
  const FieldDescriptor* field =
      set.empty() || Below(4, random) == 0
          ? type->field(static_cast<int>(Below(type->field_count(), random)))
          : set[Below(set.size(), random)];
  if (Below(8, random) == 0) return r->ClearField(&message, field);
  if (!field->is_repeated()) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return MutateValue(message, field, 0, random);
    }
    Message* inner = r->MutableMessage(&message, field);
    if (depth < 6) MutateMessage(*inner, random, depth + 1);
    return;
  }
  const int size = r->FieldSize(message, field);
  const std::size_t choice = Below(4, random);
  if (size == 0 || choice == 0) return AddElement(message, field, random);
  const int at = static_cast<int>(Below(size, random));
  if (choice == 1) {
    r->SwapElements(&message, field, at, size - 1);
    if (Below(2, random) == 0) r->RemoveLast(&message, field);
    return;
  }
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return MutateValue(message, field, at, random);
  }
  if (depth < 6) MutateMessage(*r->MutableRepeatedMessage(&message, field, at), random, depth + 1);
}

void MutateEvent(Event& event, Random& random) {
  if (Below(10, random) == 0) {
    event.argument = static_cast<std::uint8_t>(Below(Below(4, random) == 0 ? 256 : 5, random));
    return;
  }
  if (Below(20, random) == 0) {
    event.kind = static_cast<std::uint8_t>(Below(20, random));
    return;
  }
  const std::unique_ptr<Message> message = NewMessage(event.kind);
  if (message != nullptr && Below(10, random) != 0 &&
      message->ParsePartialFromString(event.bytes)) {
    MutateMessage(*message, random, 0);
    event.bytes = message->SerializePartialAsString();
    return;
  }
  const std::size_t size = event.bytes.size();
  event.bytes.resize(size + 8);
  event.bytes.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(event.bytes.data()), size,
                                      event.bytes.size()));
}

void MutateEvents(std::vector<Event>& events, Random& random) {
  if (events.empty()) events.push_back({static_cast<std::uint8_t>(Below(20, random)), 0, {}});
  const std::size_t at = Below(events.size(), random);
  const auto place = events.begin() + static_cast<std::ptrdiff_t>(at);
  switch (Below(10, random)) {
    case 0:
      events.erase(place);
      return;
    case 1:
      if (events.size() < kMaxEvents) {
        const Event copy = *place;
        events.insert(events.begin() + static_cast<std::ptrdiff_t>(Below(events.size(), random)),
                      copy);
      }
      return;
    case 2:
      std::swap(events[at], events[Below(events.size(), random)]);
      return;
    case 3:
      if (events.size() < kMaxEvents) {
        events.insert(place, {static_cast<std::uint8_t>(Below(20, random)),
                              static_cast<std::uint8_t>(Below(8, random)),
                              std::string(1, static_cast<char>(random()))});
      }
      return;
    default:
      MutateEvent(events[at], random);
  }
}

std::size_t Write(const std::vector<Event>& events, std::uint8_t* data, std::size_t max_size) {
  const std::string bytes = WriteEvents(events);
  const std::size_t size = std::min(bytes.size(), max_size);
  std::memcpy(data, bytes.data(), size);
  return size;
}

}  // namespace
}  // namespace millrace::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  using namespace millrace::fuzz;
  Random random(seed);
  std::vector<Event> events = ReadEvents(data, size);
  for (std::size_t n = 1 + Below(3, random); n > 0; --n) MutateEvents(events, random);
  return Write(events, data, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1,
                                                 const std::uint8_t* data2, std::size_t size2,
                                                 std::uint8_t* out, std::size_t max_size,
                                                 unsigned seed) {
  using namespace millrace::fuzz;
  Random random(seed);
  std::vector<Event> events = ReadEvents(data1, size1);
  const std::vector<Event> others = ReadEvents(data2, size2);
  events.resize(Below(events.size() + 1, random));
  const std::size_t from = Below(others.size() + 1, random);
  events.insert(events.end(), others.begin() + static_cast<std::ptrdiff_t>(from), others.end());
  return Write(events, out, max_size);
}
