// unisono store: the words of its command line. What each verb does is in the files beside.

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "command.hpp"
#include "number.hpp"
#include "verbs/verbs.hpp"

namespace unisono::cli {
namespace {

struct Verb {
  const char* name;
  const char* what;
  const char* example;
  void (*words)(CLI::App& command, Args& args);
  int (*run)(const Args& args);
};

void takeKey(CLI::App& command, Args& args) {
  command.add_option("KEY", args.key, "The key")->required();
}

void takeKeys(CLI::App& command, Args& args, const char* what) {
  command.add_option("KEY", args.keys, what)->required()->expected(1, 100'000);
}

void takeForm(CLI::App& command, Args& args) {
  CLI::Option* hex = command.add_flag("--hex", args.hex, "Values in hexadecimal");
  CLI::Option* base64 = command.add_flag("--base64", args.base64, "Values in base64");
  hex->excludes(base64);
}

void takeRaw(CLI::App& command, Args& args) {
  command.add_flag("--raw", args.raw, "Print the bytes as they are, without a line end")
      ->excludes("--hex")
      ->excludes("--base64");
}

void takeLiteral(CLI::App& command, Args& args) {
  command.add_flag("--literal", args.literal, "Take - and @… as values, not as places to read");
}

constexpr const char* kValueHelp = "the text, - for standard input, or @FILE for what a file holds";

void pingWords(CLI::App& command, Args& args) {
  command.add_option("URL", args.endpoint, "The store, instead of -e");
}

void statsWords(CLI::App&, Args&) {}

void keysWords(CLI::App& command, Args& args) {
  command.add_option("GLOB", args.glob, "Which keys: * ? [a-z] as in a shell; * spans / too");
}

void getWords(CLI::App& command, Args& args) {
  takeKey(command, args);
  command.add_option("--wait", args.wait, "Wait so many seconds for the key; then exit with 4")
      ->check(seconds());
  takeForm(command, args);
  takeRaw(command, args);
}

void setWords(CLI::App& command, Args& args) {
  takeKey(command, args);
  command.add_option("VALUE", args.value, kValueHelp)->required();
  takeForm(command, args);
  takeLiteral(command, args);
}

void addWords(CLI::App& command, Args& args) {
  takeKey(command, args);
  command.add_option("N", args.number, "A whole number; may be negative")
      ->required()
      ->transform(wholeNumber());
}

void casWords(CLI::App& command, Args& args) {
  takeKey(command, args);
  command
      .add_option("OLD", args.expected, "The value it must have; empty for a key that is not set")
      ->required();
  command.add_option("NEW", args.value, "The value it gets; OLD and NEW as in set")->required();
  takeForm(command, args);
  takeLiteral(command, args);
}

void delWords(CLI::App& command, Args& args) {
  takeKeys(command, args, "The keys to delete");
  command.add_flag("--prefix", args.prefix, "Delete every key that begins with KEY");
}

void waitWords(CLI::App& command, Args& args) {
  takeKeys(command, args, "The keys; all of them must be set");
}

void watchWords(CLI::App& command, Args& args) {
  command.add_option("GLOB", args.glob, "Which keys, as in keys");
  command.add_option("--interval", args.interval, "Seconds between two looks")
      ->check(seconds())
      ->capture_default_str();
  command.add_option("--count", args.count, "End after so many changes")->transform(wholeNumber(0));
  command.add_flag("--existing", args.existing, "Begin with what is there already");
  takeForm(command, args);
}

void dumpWords(CLI::App& command, Args& args) {
  command.add_option("FILE", args.file, "Where to; - for standard output")->required();
  command.add_option("--match", args.glob, "Only the keys that match, as in keys");
  command.add_flag("--skip-queues", args.skipQueues,
                   "Queues are not dumped; without this flag exit with 1 when there are some");
}

void loadWords(CLI::App& command, Args& args) {
  command.add_option("FILE", args.file, "What dump wrote; - for standard input")->required();
  command.add_flag("--force", args.force, "Overwrite keys that are set already");
}

constexpr std::array<Verb, 12> kVerbs = {{
    {"ping", "See whether a store answers, and how fast",
     "unisono store ping tcp://127.0.0.1:29500", pingWords, ping},
    {"stats", "Show what a server holds and has done", "unisono store stats --json", statsWords,
     stats},
    {"keys", "List the keys", "unisono store keys 'rank/*'", keysWords, keys},
    {"get", "Print a value; exit with 1 when the key is not set",
     "unisono store get rank/0/address --wait 10", getWords, get},
    {"set", "Set a key to a value, whatever was there", "unisono store set model @weights.bin",
     setWords, set},
    {"add", "Add to a number and print the sum; a key that is not set counts as 0",
     "unisono store add epoch 1", addWords, add},
    {"cas", "Set a key only if its value is OLD; print the value it has then, exit with 1 if not",
     "unisono store cas leader '' rank0", casWords, cas},
    {"del", "Delete keys; exit with 1 when one was not set", "unisono store del --prefix rank/",
     delWords, del},
    {"wait", "Wait until all keys are set; exit with 4 when --timeout passes",
     "unisono store wait rank/0 rank/1 --timeout 60", waitWords, wait},
    {"watch", "Print changes as they happen, until Ctrl-C", "unisono store watch 'rank/*' --json",
     watchWords, watch},
    {"dump", "Write keys and values (not queues) to a file", "unisono store dump backup.jsonl",
     dumpWords, dump},
    {"load", "Read a dump back; a damaged one is refused as a whole",
     "unisono store load backup.jsonl -e tcp://127.0.0.1:29501", loadWords, load},
}};

/// --secret-file: as if the environment named the file. It wins over what that says.
void takeSecret(CLI::App& command) {
  const auto use = [](const std::string& path) {
    ::setenv("UNISONO_AUTH_SECRET_FILE", path.c_str(), 1);
  };
  const auto refuseNone = [](const std::string& path) {
    return path.empty() ? "it needs the name of a file" : "";  // none would mean no secret
  };
  command
      .add_option_function<std::string>(
          "--secret-file", use,
          "The file with the secret that client and server prove to know; nobody else may read "
          "it (default: UNISONO_AUTH_SECRET_FILE)")
      ->check(refuseNone)
      ->type_name("FILE");
}

void takeTarget(CLI::App& command, Args& args) {
  CLI::Option* endpoint =
      command.add_option("-e,--endpoint", args.endpoint,
                         "The store: tcp://host:port[/prefix], file:///path or env:// "
                         "(default: UNISONO_STORE, or MASTER_ADDR and MASTER_PORT)");
  if (CLI::Option* url = command.get_option_no_throw("URL")) {
    endpoint->excludes(url);
  }
  takeTimeout(command, args, "Seconds after which to give up (default: 5; wait: 300)");
  takeSecret(command);
}

void addServe(CLI::App& store, Context& context) {
  CLI::App* command = store.add_subcommand(
      "serve",
      "Run a store server; PyTorch's TCPStore clients may use it too, by loopback only if it has "
      "a secret");
  command->footer("Example:\n  unisono store serve --port 0 --json");
  const auto args = std::make_shared<ServeArgs>();
  command
      ->add_option("--bind", args->host,
                   "Host or address to listen on; beyond loopback it needs a secret, or the "
                   "permission UNISONO_ALLOW_UNAUTHENTICATED=1")
      ->capture_default_str();
  command->add_option("--port", args->port, "Port; 0 picks a free one and prints it")
      ->transform(wholeNumber(0, 65'535))
      ->capture_default_str();
  command->add_option("--loop", args->loop, "Event loop")
      ->check(CLI::IsMember({"libuv", "poll"}))
      ->capture_default_str();
  takeSecret(*command);
  command->callback([args, &context] {
    static_cast<Manner&>(*args) = context.manner;
    begin(*args);
    context.exitCode = serve(*args);
  });
}

}  // namespace

void takeTimeout(CLI::App& command, Args& args, const char* help) {
  command.add_option("--timeout", args.timeout, help)->check(seconds());
}

void addStore(CLI::App& program, Context& context) {
  CLI::App* store = program.add_subcommand("store", "The key-value store through which ranks meet");
  store->require_subcommand(1);
  store->footer(
      "Example:\n  unisono store serve &\n  export UNISONO_STORE=tcp://127.0.0.1:29500\n"
      "  unisono store set greeting hello\n  unisono store get greeting");
  addServe(*store, context);
  for (const Verb& verb : kVerbs) {
    CLI::App* command = store->add_subcommand(verb.name, verb.what);
    command->footer(std::string("Example:\n  ") + verb.example);
    const auto args = std::make_shared<Args>();
    verb.words(*command, *args);
    takeTarget(*command, *args);
    command->callback([args, run = verb.run, &context] {
      static_cast<Manner&>(*args) = context.manner;
      begin(*args);
      context.exitCode = run(*args);
    });
  }
  addStoreBench(*store, context);
}

}  // namespace unisono::cli
