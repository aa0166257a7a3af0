#include "common/security/token.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "common/security/x509.h"

namespace millrace {

Result<std::string> MakeToken() {
  std::array<unsigned char, 33> bytes{};  // 33 bytes are 44 letters without padding
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return Internal("cannot make a token: " + TakeSslError());
  }
  std::array<unsigned char, 45> text{};
  const int size = EVP_EncodeBlock(text.data(), bytes.data(), static_cast<int>(bytes.size()));
  std::string token(reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size));
  std::replace(token.begin(), token.end(), '+', '-');
  std::replace(token.begin(), token.end(), '/', '_');
  return token;
}

std::string TokenDigest(std::string_view token) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(token.data(), token.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace millrace
