// unisono completion: a script that lets a shell complete our commands and options. It is made
// from the parser itself, so that it knows what the program knows.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/str.hpp"
#include "command.hpp"
#include "terminal.hpp"

namespace unisono::cli {
namespace {

struct Level {
  std::string path;                   // "unisono store get"
  std::vector<std::string> commands;  // what may follow
  std::vector<std::string> options;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Level>& levels) {
  Level level{.path = path, .commands = {}, .options = {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) {
      continue;  // for ourselves: the help does not show it either
    }
    for (const std::string& name : option->get_lnames()) {
      level.options.push_back("--" + name);
    }
  }
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands) {
    level.commands.push_back(command->get_name());
  }
  levels.push_back(level);
  for (const CLI::App* command : commands) {
    collect(*command, str(path, " ", command->get_name()), levels);
  }
}

std::string words(const std::vector<std::string>& list) {
  return join(list, " ", list.size());
}

/// The path is what has been typed so far without options; their values may get into it, and
/// then nothing is offered but file names.
std::string forBash(const std::vector<Level>& levels) {
  std::string cases;
  for (const Level& level : levels) {
    cases += str("    '", level.path, "') commands='", words(level.commands), "' options='",
                 words(level.options), "' ;;\n");
  }
  return str(R"(# bash completion of unisono. Load it with: source <(unisono completion bash)
_unisono() {
  local current=${COMP_WORDS[COMP_CWORD]} path=unisono commands='' options='' word i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case "$word" in
      -*) ;;
      *) case "$path $word" in
)",
             [&] {
               std::string known;
               for (const Level& level : levels) {
                 known += (known.empty() ? "           '" : " | '") + level.path + "'";
               }
               return known;
             }(),
             R"() path="$path $word" ;;
         esac ;;
    esac
  done
  case "$path" in
)",
             cases, R"(  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  fi
}
complete -o default -F _unisono unisono
)");
}

std::string forZsh(const std::vector<Level>& levels) {
  // zsh runs bash's functions, but has no mapfile.
  std::string script = forBash(levels);
  for (const std::string_view from : {"mapfile -t COMPREPLY < <(", "mapfile -t COMPREPLY < <("}) {
    const std::size_t at = script.find(from);
    const std::size_t end = script.find(")\n", at);
    script.replace(end, 1, "))");
    script.replace(at, from.size(), "COMPREPLY=($(");
  }
  script.erase(0, script.find('\n') + 1);
  return str("# zsh completion of unisono. Load it with: source <(unisono completion zsh)\n",
             "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit }\n",
             "autoload -U +X bashcompinit && bashcompinit\n", script);
}

std::string forFish(const std::vector<Level>& levels) {
  std::string script =
      "# fish completion of unisono. Load it with: unisono completion fish | source\n"
      "function __unisono_at\n"
      "  test (string join ' ' (string match -v -- '-*' (commandline -opc))) = \"$argv[1]\"\n"
      "end\n"
      "function __unisono_in\n"
      "  string match -q -- \"$argv[1] *\" "
      "(string join ' ' (string match -v -- '-*' (commandline -opc)))' '\n"
      "end\n";
  for (const Level& level : levels) {
    if (!level.commands.empty()) {
      script += str("complete -c unisono -f -n \"__unisono_at '", level.path, "'\" -a '",
                    words(level.commands), "'\n");
    }
    // Below a command that has commands of its own its options are not known any more.
    const char* where = level.commands.empty() ? "__unisono_in" : "__unisono_at";
    for (const std::string& option : level.options) {
      script += str("complete -c unisono -n \"", where, " '", level.path, "'\" -l ",
                    option.substr(2), "\n");
    }
  }
  return script;
}

std::string scriptFor(const std::string& shell, const CLI::App& program) {
  std::vector<Level> levels;
  collect(program, "unisono", levels);
  return shell == "bash" ? forBash(levels) : shell == "zsh" ? forZsh(levels) : forFish(levels);
}

}  // namespace

void addCompletion(CLI::App& program, Context& context) {
  CLI::App* command = program.add_subcommand(
      "completion", "Print a script with which a shell completes commands and options");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Example:\n  source <(unisono completion bash)");
  command->callback([shell, &program, &context] {
    begin(context.manner);
    const std::string script = scriptFor(*shell, program);
    if (!context.manner.json) {
      print(script);
      return;
    }
    const nlohmann::ordered_json document = {
        {"schema", "unisono-completion/1"}, {"shell", *shell}, {"script", script}};
    printLine(document.dump());
  });
}

}  // namespace unisono::cli
