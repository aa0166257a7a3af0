#include <algorithm>
#include <functional>

#include "tests/support/example_oracle.h"

namespace millrace::test {
namespace {

/// Writes wire bytes in ways that a canonical writer never takes.
class OddWriter {
 public:
  explicit OddWriter(std::mt19937_64& random) : random_(random) {}

  std::string Example() {
    return Message([this] { return Chance(8) ? Unknown(0) : Field(1, Features()); }, 2);
  }

 private:
  bool Chance(std::uint64_t of) { return random_() % of == 0; }
  std::uint64_t Number() { return random_() >> (random_() % 64); }

  std::string Varint(std::uint64_t value, std::size_t most) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
    while (Chance(16) && out.size() < most) {
      out.back() = static_cast<char>(out.back() | 0x80);
      out += '\0';
    }
    // Protobuf ignores the highest bits of the tenth byte, and refuses an eleventh one.
    if (most == 10 && out.size() == 10 && Chance(4))
      out.back() = static_cast<char>(random_() % 128);
    if (Chance(400)) out.back() = static_cast<char>(out.back() | 0x80);
    return out;
  }
  std::string Tag(std::uint64_t field, std::uint64_t type) { return Varint(field << 3 | type, 5); }
  std::string Field(std::uint64_t field, const std::string& value) {
    const std::uint64_t length = value.size() + (Chance(400) ? 1 : 0);
    return Tag(field, 2) + Varint(length, 5) + value;
  }

  std::string Message(const std::function<std::string()>& field, std::uint64_t most) {
    std::string out;
    for (std::uint64_t i = random_() % (most + 1); i > 0; --i) out += field();
    return out;
  }

  /// A field of any number and type. It may be a known one with another type.
  std::string Unknown(int depth) {
    const std::uint64_t field = Chance(2) ? random_() % 5 : random_() % (1U << 29);
    switch (random_() % 8) {
      case 0:
        return Tag(field, 1) + Bytes(8);
      case 1:
        return Field(field + 4, Bytes(random_() % 20));
      case 2:
        if (depth > 3 && !Chance(20)) return "";
        return Tag(field, 3) + Message([this, depth] { return Unknown(depth + 1); }, 2) +
               (Chance(20) ? "" : Tag(field, 4));
      case 3:
        return Tag(field, 5) + Bytes(4);
      case 4:
        return Chance(40) ? Tag(field, 6 + random_() % 2) : "";
      case 5:
        return Chance(40) ? Tag(field, 4) : "";
      default:
        return Tag(field, 0) + Varint(Number(), 10);
    }
  }

  std::string Bytes(std::size_t count) {
    std::string out;
    while (out.size() < count) out += static_cast<char>(random_());
    return out;
  }

  std::string List(std::uint64_t kind) {
    return Message(
        [this, kind]() -> std::string {
          if (Chance(10)) return Unknown(0);
          if (kind == 1) return Field(1, Bytes(random_() % 200));
          const bool packed = Chance(2);
          const std::uint64_t count = packed ? random_() % 5 : 1;
          std::string values;
          for (std::uint64_t i = 0; i < count; ++i) {
            values += kind == 2 ? Bytes(4) : Varint(Number(), 10);
          }
          if (packed && Chance(100)) values += '\x80';
          if (packed) return Field(1, values);
          return Tag(1, kind == 2 ? 5 : 0) + values;
        },
        3);
  }

  std::string Feature() {
    return Message(
        [this] {
          if (Chance(10)) return Unknown(0);
          const std::uint64_t kind = 1 + random_() % 3;
          return Field(kind, List(Chance(20) ? 1 + random_() % 3 : kind));
        },
        Chance(3) ? 3 : 1);
  }

  std::string Key() {
    static const char* const kKeys[] = {
        "d",   "s", "", "long name of a feature", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
        "\xFF"};
    return kKeys[random_() % (Chance(40) ? 8 : 7)];
  }

  std::string Entry() {
    switch (random_() % 8) {
      case 0:
        return Field(2, Feature()) + Field(1, Key());
      case 1:
        return Field(1, Key()) + Field(2, Feature()) + Field(2, Feature());
      case 2:
        return Message(
            [this] {
              if (Chance(3)) return Unknown(0);
              return Chance(2) ? Field(1, Key()) : Field(2, Feature());
            },
            4);
      default:
        return Field(1, Key()) + Field(2, Feature());
    }
  }

  std::string Features() {
    return Message([this] { return Chance(10) ? Unknown(0) : Field(1, Entry()); }, 4);
  }

  std::mt19937_64& random_;
};

}  // namespace

PlainExample RandomExample(std::mt19937_64& random) {
  PlainExample example;
  for (std::uint64_t features = random() % 5; features > 0; --features) {
    PlainFeature feature;
    feature.kind = static_cast<FeatureKind>(random() % 4);
    for (std::uint64_t values = random() % 6; values > 0; --values) {
      if (feature.kind == FeatureKind::kBytes) {
        feature.bytes.emplace_back(random() % 300, static_cast<char>(random()));
      } else if (feature.kind == FeatureKind::kFloat) {
        feature.floats.push_back(static_cast<std::uint32_t>(random()));
      } else if (feature.kind == FeatureKind::kInt64) {
        feature.ints.push_back(static_cast<std::int64_t>(random() >> (random() % 64)));
      }
    }
    example[std::string(random() % 3, static_cast<char>('a' + random() % 4))] = feature;
  }
  return example;
}

std::string RandomEncoding(std::mt19937_64& random) { return OddWriter(random).Example(); }

std::string Mutated(std::string bytes, std::mt19937_64& random) {
  for (std::uint64_t changes = 1 + random() % 3; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    const std::size_t count = std::min<std::size_t>(1 + random() % 4, bytes.size() - at);
    switch (random() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.erase(at, count);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, count));
        break;
      default:
        if (random() % 4 == 0) bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace millrace::test
