#include "net/secret.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "unisono/base/error.hpp"

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/str.hpp"

namespace unisono {
namespace {

UNISONO_KNOB(std::string, kSecret, "UNISONO_AUTH_SECRET", "",
             "what the processes of a job prove to each other that they know; at least 16 bytes");
UNISONO_KNOB(std::string, kSecretFile, "UNISONO_AUTH_SECRET_FILE", "",
             "the file that holds it; nobody but its owner may read it");
UNISONO_KNOB(bool, kAllowUnauthenticated, "UNISONO_ALLOW_UNAUTHENTICATED", "0",
             "1 lets this process listen beyond loopback although nothing authenticates clients");

constexpr std::size_t kShortest = 16;
constexpr std::size_t kLongest = 4096;
constexpr std::string_view kSalt = "unisono-v1";

[[noreturn]] void refuse(std::string_view what, std::string_view hint) {
  throw UsageError(
      {.reason = Reason::CONFIG, .what = std::string(what), .hint = std::string(hint)});
}

/// What a call of the library that cannot fail for reasons of ours has come to.
void require(bool worked) {
  if (!worked) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = "OpenSSL's libcrypto refuses HMAC-SHA256",
                     .hint = "see what its configuration allows: openssl list -mac-algorithms"});
  }
}

/// Before the first use of the library. What it holds must stay to the end: threads that nobody
/// waits for may be proving a secret while the process exits.
void prepare() {
  static const bool ready = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
  require(ready);
}

const unsigned char* raw(std::string_view bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Secret readSecretFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    refuse(str("the secret file '", path, "' cannot be read: ", errnoDetail(errno)),
           "correct UNISONO_AUTH_SECRET_FILE, or unset it to go without a secret");
  }
  if (!S_ISREG(status.st_mode)) {
    refuse(str("the secret file '", path, "' is no plain file"), "put the secret into a file");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(str("the secret file '", path, "' is open to others"), str("chmod 600 '", path, "'"));
  }
  Secret content(kLongest + 1);
  const ssize_t got = ::read(fd.get(), content.data(), kLongest + 1);
  if (got < 0) {
    refuse(str("the secret file '", path, "' cannot be read: ", errnoDetail(errno)),
           "correct UNISONO_AUTH_SECRET_FILE");
  }
  const auto end =
      std::string_view(content.data(), static_cast<std::size_t>(got)).find_last_not_of("\r\n");
  content.shrink(end == std::string_view::npos ? 0 : end + 1);
  return content;
}

Secret longEnough(Secret secret, std::string_view source) {
  const std::size_t size = secret.view().size();
  if (size < kShortest || size > kLongest) {
    refuse(str(source, " holds ", size, " bytes; a secret has ", kShortest, " to ", kLongest),
           "make one with: head -c 32 /dev/urandom | base64");
  }
  return secret;
}

std::size_t totalSize(std::initializer_list<std::string_view> parts) noexcept {
  std::size_t size = 0;
  for (const std::string_view part : parts) {
    size += part.size();
  }
  return size;
}

}  // namespace

Secret::Secret(std::size_t size) : size_(size), mapped_(std::max<std::size_t>(size, 1)) {
  void* pages =
      ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw DistError({.reason = Reason::RESOURCE,
                     .what = str("there is no memory for a secret: ", errnoDetail(errno)),
                     .hint = "free some, or raise the limits of this process (ulimit -v)"});
  }
  static_cast<void>(::madvise(pages, mapped_, MADV_DONTDUMP));  // where the kernel knows it
  pages_ = static_cast<char*>(pages);
}

Secret::Secret(std::initializer_list<std::string_view> parts) : Secret(totalSize(parts)) {
  char* at = pages_;
  for (const std::string_view part : parts) {
    at = std::copy(part.begin(), part.end(), at);
  }
}

Secret::~Secret() {
  if (pages_ != nullptr) {
    shrink(0);
    ::munmap(pages_, mapped_);
  }
}

Secret::Secret(Secret&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), size_(other.size_), mapped_(other.mapped_) {}

void Secret::shrink(std::size_t size) noexcept {
  OPENSSL_cleanse(pages_ + size, mapped_ - size);
  size_ = size;
}

std::optional<Secret> jobSecret() {
  if (const std::string path = kSecretFile.value(); !path.empty()) {
    return longEnough(readSecretFile(path), str("the secret file '", path, "'"));
  }
  if (const std::string secret = kSecret.value(); !secret.empty()) {
    return longEnough(Secret({secret}), kSecret.name);
  }
  return std::nullopt;
}

bool isUnauthenticatedAllowed() {
  return kAllowUnauthenticated.value();
}

Key deriveKey(std::string_view secret, std::string_view purpose) {
  prepare();
  char digest[] = "SHA256";
  const auto octets = [](const char* name, std::string_view bytes) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
  };
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                               octets(OSSL_KDF_PARAM_KEY, secret),
                               octets(OSSL_KDF_PARAM_SALT, kSalt),
                               octets(OSSL_KDF_PARAM_INFO, purpose), OSSL_PARAM_construct_end()};
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* context = kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf);
  Key key{};
  const bool worked =
      context != nullptr && EVP_KDF_derive(context, key.data(), key.size(), params) == 1;
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  require(worked);
  return key;
}

Key authenticate(const Key& key, std::initializer_list<std::string_view> parts) {
  prepare();
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  EVP_MAC_CTX* context = mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac);
  bool worked = context != nullptr && EVP_MAC_init(context, key.data(), key.size(), params) == 1;
  for (const std::string_view part : parts) {
    worked = worked && EVP_MAC_update(context, raw(part), part.size()) == 1;
  }
  Key code{};
  std::size_t size = 0;
  worked = worked && EVP_MAC_final(context, code.data(), &size, code.size()) == 1;
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  require(worked && size == code.size());
  return code;
}

bool isSame(const Key& a, std::string_view b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::string& bytes) noexcept {
  OPENSSL_cleanse(bytes.data(), bytes.size());
  bytes.clear();
}

std::string randomBytes(std::size_t count) {
  prepare();
  std::string bytes(count, '\0');
  require(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1);
  return bytes;
}

}  // namespace unisono
