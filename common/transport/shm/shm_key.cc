#include "common/transport/shm/shm_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <stdexcept>

#include "common/system/nonce.h"

namespace millrace {
namespace {

constexpr std::string_view kPrefix = "@millrace-";
constexpr std::size_t kKeyDigits = 32;

std::string RandomDigits() {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : MakeNonce()) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace

ShmAddress MakeShmAddress() { return {std::string(kPrefix) + RandomDigits(), RandomDigits()}; }

std::string ToString(const ShmAddress& address) { return address.name + ":" + address.key; }

std::optional<ShmAddress> ParseShmAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon < 2 || text.front() != '@') return std::nullopt;
  const std::string_view key = text.substr(colon + 1);
  if (key.size() != kKeyDigits) return std::nullopt;
  return ShmAddress{std::string(text.substr(0, colon)), std::string(key)};
}

ShmNonce MakeShmNonce() {
  const std::string bytes = MakeNonce();
  ShmNonce nonce{};
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

ShmProof Prove(std::string_view key, ShmSide side, const ShmNonce& of_consumer,
               const ShmNonce& of_worker) {
  std::string text(1, static_cast<char>(side));
  text.append(of_consumer.begin(), of_consumer.end());
  text.append(of_worker.begin(), of_worker.end());
  ShmProof proof{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(),
           &size) == nullptr ||
      size != proof.size()) {
    throw std::runtime_error("OpenSSL gives no HMAC with SHA-256");
  }
  return proof;
}

bool Same(const ShmProof& a, const ShmProof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace millrace
