#include "common/base/ids.h"

namespace millrace {
namespace {

void AppendHex(std::uint64_t value, std::string& out) {
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(value >> shift) & 15];
}

bool ParseHex(std::string_view hex, std::uint64_t& value) {
  value = 0;
  for (char c : hex) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string Number::ToString() const { return std::to_string(term) + "." + std::to_string(n); }

std::string Digest128::ToHex() const {
  std::string out;
  out.reserve(32);
  AppendHex(high, out);
  AppendHex(low, out);
  return out;
}

Result<Digest128> Digest128::FromHex(std::string_view hex) {
  Digest128 d;
  if (hex.size() != 32 || !ParseHex(hex.substr(0, 16), d.high) ||
      !ParseHex(hex.substr(16), d.low)) {
    return InvalidArgument("'" + std::string(hex) + "' is no digest: expected 32 hex digits");
  }
  return d;
}

std::string Digest128::ToBytes() const {
  std::string out(16, '\0');
  for (int i = 0; i < 8; ++i) {
    out[static_cast<std::size_t>(i)] = static_cast<char>(high >> (56 - 8 * i));
    out[static_cast<std::size_t>(i + 8)] = static_cast<char>(low >> (56 - 8 * i));
  }
  return out;
}

Result<Digest128> Digest128::FromBytes(std::string_view bytes) {
  if (bytes.size() != 16) {
    return InvalidArgument("a digest has 16 bytes, got " + std::to_string(bytes.size()));
  }
  Digest128 d;
  for (std::size_t i = 0; i < 8; ++i) {
    d.high = d.high << 8 | static_cast<unsigned char>(bytes[i]);
    d.low = d.low << 8 | static_cast<unsigned char>(bytes[i + 8]);
  }
  return d;
}

std::string Fingerprint::ToString() const { return dataset.ToHex() + "-" + pipeline.ToHex(); }

Result<Fingerprint> Fingerprint::FromString(std::string_view text) {
  if (text.size() != 65 || text[32] != '-') {
    return InvalidArgument(
        "'" + std::string(text) +
        "' is no fingerprint: expected two digests of 32 hex digits with '-' between");
  }
  Fingerprint f;
  MILLRACE_ASSIGN_OR_RETURN(f.dataset, Digest128::FromHex(text.substr(0, 32)));
  MILLRACE_ASSIGN_OR_RETURN(f.pipeline, Digest128::FromHex(text.substr(33)));
  return f;
}

}  // namespace millrace
