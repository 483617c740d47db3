#include "store/tcp/entrance.hpp"

#include <algorithm>
#include <utility>

#include "base/str.hpp"
#include "store/tcp/core.hpp"

namespace unisono::tcp {
namespace {

/// What a first byte that is not ours probably belongs to.
std::string_view guessProtocol(std::uint8_t first) {
  if (first == 0x16) {
    return "TLS";
  }
  if (first >= 'A' && first <= 'Z') {
    return "HTTP";
  }
  if (first == '*' || first == '$') {
    return "Redis";
  }
  return "something else";
}

/// Whether that is how PyTorch's clients begin.
bool isStockHello(char first) {
  return first == static_cast<char>(Query::VALIDATE);
}

/// Whether a connection that begins with `first` is one of those that the server is for.
Status judge(char first, bool hasKey) {
  const bool isHandshake = first == kHelloByte;
  const bool isHello = isStockHello(first);
  if (isHandshake ? hasKey : isHello && !hasKey) {
    return Status::ok();
  }
  if (isHandshake) {
    return {Reason::AUTH_FAILED,
            "it wants to prove that it knows the job's secret, but this server has none. DO: set "
            "UNISONO_AUTH_SECRET_FILE on both sides"};
  }
  if (isHello) {
    return {Reason::AUTH_FAILED,
            "it does not prove that it knows the job's secret: it has none, or is PyTorch's, and "
            "does not connect by loopback, or that is not enough (UNISONO_STORE_ADMIT_LOCAL). DO: "
            "set UNISONO_AUTH_SECRET_FILE on both sides"};
  }
  return {Reason::PROTOCOL, str("it speaks ", guessProtocol(static_cast<std::uint8_t>(first)),
                                ", but this port serves the TCPStore protocol")};
}

}  // namespace

std::optional<Key> storeKey() {
  const std::optional<Secret> secret = jobSecret();
  return secret ? std::optional(deriveKey(secret->view(), "store")) : std::nullopt;
}

/// True when the frame of `size` bytes is complete.
bool Entrance::collect(std::string_view* bytes, std::size_t size) {
  const std::size_t count = std::min(size - frame_.size(), bytes->size());
  frame_.append(bytes->substr(0, count));
  bytes->remove_prefix(count);
  return frame_.size() == size;
}

Status Entrance::take(std::string_view* bytes, std::string* out) {
  if (!acceptor_) {
    if (!collect(bytes, kHelloSize)) {
      return Status::ok();
    }
    if (!Hello::parse(frame_)) {
      return {Reason::AUTH_FAILED, "it greets in a way that this version does not know"};
    }
    acceptor_.emplace(key_, std::exchange(frame_, {}));
    out->append(acceptor_->challenge());
  }
  if (!collect(bytes, kProofSize)) {
    return Status::ok();
  }
  if (!acceptor_->accepts(frame_)) {
    return {Reason::AUTH_FAILED, "its proof that it knows the job's secret is wrong"};
  }
  out->push_back(kWelcome);
  passed_ = true;
  return Status::ok();
}

/// Looks at the first bytes of a connection before anything else does, and takes away those that
/// prove who it is.
Status StoreCore::takeHello(Session& session, std::string_view* bytes, TimePoint now) {
  if (!session.entrance) {
    if (!session.parser.idle()) {
      return Status::ok();
    }
    if (session.needsNoProof && isStockHello(bytes->front())) {
      return Status::ok();
    }
    if (Status status = judge(bytes->front(), key_.has_value()); !status.isOk() || !key_) {
      return status;
    }
    session.entrance = std::make_unique<Entrance>(*key_);
  }
  Status status = session.entrance->take(bytes, &session.out);
  settle(session, now);
  if (session.entrance->passed()) {
    session.entrance.reset();
    validate(session);
  }
  return status;
}

void StoreCore::validate(Session& session) {
  session.validated = true;
  unvalidated_.remove(session.id);
}

std::optional<Status> StoreCore::whyItLeft(ConnectionId id) const {
  const Session* session = find(id);
  if (session == nullptr || !session->entrance || !session->entrance->challenged()) {
    return std::nullopt;
  }
  return Status(Reason::AUTH_FAILED,
                "it left without a proof that it knows the job's secret: it may have another one");
}

}  // namespace unisono::tcp
